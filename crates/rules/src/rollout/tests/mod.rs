mod decisions;
mod examples;
mod fixture;
mod overriding;
mod surplus_bindings;
mod triggers;
