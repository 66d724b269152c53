//! Read models, the live event stream and the web page over them.
//!
//! Empty until the controllers it shows exist. It prints what `explain` says and
//! computes no rule of its own.
