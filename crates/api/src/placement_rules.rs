//! The CEL rules of placements, with the messages users see.
//!
//! The texts are API: clients match on the messages, and the facts test compares
//! every letter. Rules of single fields stand beside the fields.

/// A selector of namespaces, in the words of the rules.
macro_rules! namespace {
    () => {
        r#"x.kind == 'Namespace' && x.group == "" && x.version == 'v1'"#
    };
}

/// A selector of a namespace that leaves its content to the other selectors.
macro_rules! selecting {
    () => {
        concat!(
            namespace!(),
            " && has(x.selectionScope) && x.selectionScope == 'NamespaceWithResourceSelectors'",
        )
    };
}

pub(crate) const POLICY_RULES: &[(&str, &str)] = &[
    ("!(self.placementType != oldSelf.placementType)", "placement type is immutable"),
    (
        "self.placementType != 'PickFixed' || (!has(self.affinity) && \
         !has(self.numberOfClusters) && !has(self.topologySpreadConstraints) && \
         !has(self.tolerations))",
        "affinity, numberOfClusters, topologySpreadConstraints, and tolerations cannot be set \
         when placementType is PickFixed",
    ),
    (
        "self.placementType != 'PickAll' || (!has(self.clusterNames) && \
         !has(self.numberOfClusters) && !has(self.topologySpreadConstraints))",
        "clusterNames, numberOfClusters, and topologySpreadConstraints cannot be set when \
         placementType is PickAll",
    ),
    (
        "self.placementType != 'PickN' || (!has(self.clusterNames) && has(self.numberOfClusters))",
        "clusterNames cannot be set and numberOfClusters must be set when placementType is PickN",
    ),
];

pub(crate) const KEEPS_POLICY: (&str, &str) =
    ("!(has(oldSelf.policy) && !has(self.policy))", "policy cannot be removed once set");

pub(crate) const ONE_NAMESPACE_TO_REPORT_TO: (&str, &str) = (
    "!(self.statusReportingScope == 'NamespaceAccessible' && \
     size(self.resourceSelectors.filter(x, x.kind == 'Namespace')) != 1)",
    "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind \
     'Namespace' is required",
);

pub(crate) const KEEPS_REPORTING_SCOPE: (&str, &str) = (
    "!has(oldSelf.statusReportingScope) || self.statusReportingScope == \
     oldSelf.statusReportingScope",
    "statusReportingScope is immutable",
);

pub(crate) const ONE_SELECTING_NAMESPACE: (&str, &str) = (
    concat!("size(self.resourceSelectors.filter(x, ", selecting!(), ")) <= 1",),
    "only one namespace selector with NamespaceWithResourceSelectors mode is allowed",
);

pub(crate) const SELECTING_NAMESPACE_BY_NAME: (&str, &str) = (
    concat!(
        "size(self.resourceSelectors.filter(x, ",
        selecting!(),
        ")) == 0 || (size(self.resourceSelectors.filter(x, ",
        selecting!(),
        " && has(x.name) && size(x.name) > 0 && !has(x.labelSelector))) == 1)",
    ),
    "namespace selector with NamespaceWithResourceSelectors mode must select by name (not by \
     label)",
);

pub(crate) const SELECTING_NAMESPACE_ALONE: (&str, &str) = (
    concat!(
        "size(self.resourceSelectors.filter(x, ",
        selecting!(),
        ")) == 0 || size(self.resourceSelectors.filter(x, ",
        namespace!(),
        ")) == 1",
    ),
    "when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed \
     (cannot mix with other namespace selectors)",
);
