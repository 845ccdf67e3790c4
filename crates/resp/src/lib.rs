//! The Redis protocol: requests in, replies out.
