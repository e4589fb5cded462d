"""The site of the documentation: ``make site`` builds it with MkDocs, whose hooks are in ``hooks``.

Pages stay where they are in the repository, with links that code hosts follow. What the site adds is made as it is
built: the navigation out of ``docs/index.md``, pages of wheels, examples and notebooks, and a page for each operation.
"""
