//! Which resources a cluster serves: built-in kinds and custom resource definitions.
