// `numoe-kernel-bench transport`: compares the shared-memory mailbox with gRPC over a Unix socket, with the
// same payloads, in one run on pinned cores. Each echo goes through a process of its own. It forks, so it
// must run before any thread or gRPC call of the program.
#pragma once

namespace numoe::worker {

/// Prints a table, or with `json` one object per line. Returns the program's exit code.
int RunTransportBench(bool json);

}  // namespace numoe::worker
