//! The checklist of the scheduling specification, as tables and small stories.

mod affinity;
mod bindings;
mod decisions;
mod eligibility;
mod fleet;
mod pick_all;
mod pick_fixed;
mod pick_n;
mod spread;
mod taints;
mod waking;
