"""Members that classes of CNTK 2.7 have of its library, beside what its Python adds; scripts call some of them."""
