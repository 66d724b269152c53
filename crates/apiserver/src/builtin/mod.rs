//! What the server knows of Kubernetes' own kinds: names, defaults and validation.
