mod decisions;
mod examples;
mod overriding;
mod surplus_bindings;
mod triggers;
mod world;
