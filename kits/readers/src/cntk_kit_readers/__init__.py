"""What readers share: layouts, random order, minibatches out of chunks, prefetching."""
