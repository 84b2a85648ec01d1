//! The portable half on an Apache DataFusion Ballista cluster.
