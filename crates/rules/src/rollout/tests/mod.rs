mod decisions;
mod examples;
mod overriding;
mod triggers;
mod twins;
mod world;
