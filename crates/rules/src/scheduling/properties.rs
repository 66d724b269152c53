//! The value of a property on a cluster.
//!
//! A name the policy got wrong stops the pass; a value that one cluster got wrong
//! concerns that cluster alone.

use flagship_api::property::{Capacity, PropertyName};
use flagship_base::quantity::Quantity;

use crate::model::Cluster;

/// What a look at one property of one cluster found.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// The cluster has it.
    Value(Quantity),
    /// The cluster does not report it.
    Absent,
    /// The cluster reports something that is no quantity; why, in words.
    Malformed(String),
}

/// Looks a property up.
pub fn look_up(property: PropertyName<'_>, cluster: &Cluster) -> Found {
    let (name, text) = match property {
        PropertyName::Reported(name) => (name, cluster.properties.get(name)),
        PropertyName::Resource { capacity, resource } => {
            let list = match capacity {
                Capacity::Total => &cluster.capacity,
                Capacity::Allocatable => &cluster.allocatable,
                Capacity::Available => &cluster.available,
            };
            (resource, list.get(resource))
        }
    };
    let Some(text) = text else { return Found::Absent };
    match text.parse::<Quantity>() {
        Ok(value) => Found::Value(value),
        Err(why) => Found::Malformed(format!(
            "value {text} of property {name} from cluster {} is not a valid quantity: {why}",
            cluster.name
        )),
    }
}
