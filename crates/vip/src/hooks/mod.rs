//! The wire side of the runtime extension: paths, messages and the server.
