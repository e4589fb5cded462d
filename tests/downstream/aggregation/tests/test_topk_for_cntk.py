from topk_for_cntk import TopK

from cntk_testing import AggregationContract, PackagingContract


class TestTopK(AggregationContract):
    aggregation_class = TopK
    exact = False


class TestPackaging(PackagingContract):
    distribution = "topk-for-cntk"
    kind = "aggregation"
