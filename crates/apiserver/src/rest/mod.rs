//! HTTP verbs on resources: routing, decoding, the write pipeline, lists and watch streams.
