//! The launchers on buffers of one handle, a file a family. The contracts are the header's.
mod elementwise;
