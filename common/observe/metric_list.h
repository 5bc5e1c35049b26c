// Every metric of the daemons, sorted by name: the one list that code, dashboards and documents take their
// words from.
//
//   COUNTER(id, name, owner, labels, help)             only rises; the name ends in _total
//   GAUGE(id, name, owner, labels, help)
//   HISTOGRAM(id, name, owner, labels, buckets, help)  the name ends in its unit
// owner: kCoordinator, kWorker, kRouter, or kBoth (the first two), kServers (those with the API), kAll.
// labels: names separated by commas. metrics.cc checks the rules at compile time.
//
// NUMOE_METRIC_ALIASES: the coordinator's metrics under vLLM's names as well, which dashboards and
// autoscalers know: ALIAS(name, ours, label, label of vLLM's). Both names of one are there where vLLM has
// renamed it.
#pragma once

#define NUMOE_METRIC_ALIASES(ALIAS)                                                                 \
  ALIAS("vllm:e2e_request_latency_seconds", "numoe_request_duration_seconds", "", "")               \
  ALIAS("vllm:generation_tokens_total", "numoe_tokens_generated_total", "", "")                     \
  ALIAS("vllm:gpu_cache_usage_perc", "numoe_kv_usage_ratio", "", "")                                \
  ALIAS("vllm:inter_token_latency_seconds", "numoe_inter_token_latency_seconds", "", "")            \
  ALIAS("vllm:iteration_tokens_total", "numoe_step_tokens", "", "")                                 \
  ALIAS("vllm:kv_cache_usage_perc", "numoe_kv_usage_ratio", "", "")                                 \
  ALIAS("vllm:num_preemptions_total", "numoe_preemptions_total", "", "")                            \
  ALIAS("vllm:num_requests_running", "numoe_requests_running", "", "")                              \
  ALIAS("vllm:num_requests_waiting", "numoe_requests_waiting", "", "")                              \
  ALIAS("vllm:prefix_cache_hits_total", "numoe_prefix_cache_hit_tokens_total", "", "")              \
  ALIAS("vllm:prefix_cache_queries_total", "numoe_prefix_cache_query_tokens_total", "", "")         \
  ALIAS("vllm:prompt_tokens_total", "numoe_tokens_prompt_total", "", "")                            \
  ALIAS("vllm:request_queue_time_seconds", "numoe_queue_wait_seconds", "", "")                      \
  ALIAS("vllm:request_success_total", "numoe_requests_finished_total", "reason", "finished_reason") \
  ALIAS("vllm:time_per_output_token_seconds", "numoe_inter_token_latency_seconds", "", "")          \
  ALIAS("vllm:time_to_first_token_seconds", "numoe_time_to_first_token_seconds", "", "")

#define NUMOE_METRICS(COUNTER, GAUGE, HISTOGRAM)                                                          \
  GAUGE(kBuildInfo, "numoe_build_info", kAll, "version,isa",                                              \
        "Always 1: the program's version and the instruction set its kernels use")                        \
  GAUGE(kCertificateExpiry, "numoe_certificate_expiry_timestamp_seconds", kAll, "flag",                   \
        "Unix time at which the certificate ends that this flag names, as it is in use")                  \
  HISTOGRAM(kExpertCallDuration, "numoe_expert_call_duration_seconds", kWorker, "", kMicroseconds,        \
            "Time to compute one layer call, without transport")                                          \
  HISTOGRAM(kExpertCallTokens, "numoe_expert_call_tokens", kWorker, "", kPowersOfTwo,                     \
            "Tokens in a layer call")                                                                     \
  COUNTER(kExpertCallsFailed, "numoe_expert_calls_failed_total", kWorker, "",                             \
          "Layer calls answered with an error")                                                           \
  GAUGE(kExpertHottest, "numoe_expert_hottest_ratio", kWorker, "layer",                                   \
        "Share of a layer's recent rows that its hottest eighth of experts computes, 0 to 1")             \
  HISTOGRAM(kExpertRowsOfCall, "numoe_expert_rows_of_call_tokens", kWorker, "", kPowersOfTwo,             \
            "Token rows of an expert in a layer call that needs it")                                      \
  COUNTER(kExpertRows, "numoe_expert_rows_total", kWorker, "layer",                                       \
          "Token rows computed by this worker's experts of each layer; GetExpertStats has every expert")  \
  GAUGE(kExpertSessions, "numoe_expert_sessions", kWorker, "", "Coordinators connected to this worker")   \
  COUNTER(kExpertWeightBytes, "numoe_expert_weight_bytes_total", kWorker, "",                             \
          "Bytes of the experts that layer calls needed; its rate is the memory bandwidth they take")     \
  COUNTER(kGpuExpertSelections, "numoe_gpu_expert_selections_total", kCoordinator, "where",               \
          "Selections of routed experts, by where they were computed: gpu or workers")                    \
  COUNTER(kGpuExpertSwaps, "numoe_gpu_expert_swaps_total", kCoordinator, "",                              \
          "Experts that came to the GPU while it served")                                                 \
  COUNTER(kHttpAnswersCut, "numoe_http_answers_cut_total", kServers, "",                                  \
          "Answers cut off because the client did not read them")                                         \
  COUNTER(kHttpRequests, "numoe_http_requests_total", kServers, "path,status",                            \
          "HTTP requests answered, by path and status code")                                              \
  HISTOGRAM(kInterTokenLatency, "numoe_inter_token_latency_seconds", kCoordinator, "", kMilliseconds,     \
            "Time between two tokens of one request")                                                     \
  GAUGE(kKvBlocksCapacity, "numoe_kv_blocks_capacity", kCoordinator, "", "KV cache blocks that exist")    \
  GAUGE(kKvBlocksUsed, "numoe_kv_blocks_used", kCoordinator, "", "KV cache blocks that hold tokens")      \
  GAUGE(kKvUsage, "numoe_kv_usage_ratio", kCoordinator, "", "Share of the KV cache in use, 0 to 1")       \
  GAUGE(kLoadBytes, "numoe_load_bytes", kWorker, "",                                                      \
        "Bytes of the checkpoint that this worker reads to load its slice")                               \
  GAUGE(kLoadBytesDone, "numoe_load_bytes_done", kWorker, "", "Those of them that have been read")        \
  GAUGE(kLoadSeconds, "numoe_load_seconds", kWorker, "", "Time that loading the slice has taken")         \
  GAUGE(kMailboxLocal, "numoe_mailbox_local_ratio", kWorker, "",                                          \
        "Least share of a session's mailbox on the worker's NUMA nodes, 0 to 1; absent where not known")  \
  GAUGE(kPinned, "numoe_pinned", kWorker, "",                                                             \
        "1 if every compute thread is bound to a CPU of its own, and sessions' threads to it or to "      \
        "the node's CPUs, else 0")                                                                        \
  COUNTER(kPreemptions, "numoe_preemptions_total", kCoordinator, "",                                      \
          "Sequences put back into the queue because the KV cache was full")                              \
  COUNTER(kPrefixHitTokens, "numoe_prefix_cache_hit_tokens_total", kCoordinator, "",                      \
          "Prompt tokens found in the prefix cache")                                                      \
  COUNTER(kPrefixQueryTokens, "numoe_prefix_cache_query_tokens_total", kCoordinator, "",                  \
          "Prompt tokens looked up in the prefix cache")                                                  \
  GAUGE(kPreflightFailed, "numoe_preflight_failed", kWorker, "check",                                     \
        "1 where --preflight finds a setting of this machine wrong, by check, else 0; as of the start")   \
  HISTOGRAM(kQueueWait, "numoe_queue_wait_seconds", kCoordinator, "", kMilliseconds,                      \
            "Time from a request's arrival to its first step")                                            \
  COUNTER(kReceivedBytes, "numoe_received_bytes_total", kBoth, "peer",                                    \
          "Payload bytes received from a worker or coordinator")                                          \
  HISTOGRAM(kRequestDuration, "numoe_request_duration_seconds", kCoordinator, "", kMilliseconds,          \
            "Time from a request's arrival to its last token")                                            \
  COUNTER(kRequestsFinished, "numoe_requests_finished_total", kCoordinator, "reason",                     \
          "Requests that ended, by reason: stop, length, cancelled or error")                             \
  COUNTER(kRequestsRejected, "numoe_requests_rejected_total", kCoordinator, "",                           \
          "Requests answered 429 because the queue was full")                                             \
  GAUGE(kRequestsRunning, "numoe_requests_running", kCoordinator, "", "Requests that take part in steps") \
  GAUGE(kRequestsWaiting, "numoe_requests_waiting", kCoordinator, "", "Requests in the queue")            \
  GAUGE(kRouterBackendUp, "numoe_router_backend_up", kRouter, "backend",                                  \
        "1 while a coordinator behind the router is ready for requests, else 0")                          \
  GAUGE(kRouterPrefixes, "numoe_router_prefixes", kRouter, "",                                            \
        "Beginnings of prompts whose backend the router remembers")                                       \
  GAUGE(kRouterRequestsRunning, "numoe_router_requests_running", kRouter, "backend",                      \
        "Requests that a backend has and has not answered")                                               \
  COUNTER(kRouterRequests, "numoe_router_requests_total", kRouter, "backend,by",                          \
          "Requests handed to a backend, by what chose it: prefix, load or response")                     \
  COUNTER(kRouterRetries, "numoe_router_retries_total", kRouter, "backend",                               \
          "Requests that a backend refused or could not take and that another one got")                   \
  COUNTER(kSentBytes, "numoe_sent_bytes_total", kBoth, "peer",                                            \
          "Payload bytes sent to a worker or coordinator")                                                \
  HISTOGRAM(kStepDuration, "numoe_step_duration_seconds", kCoordinator, "", kMilliseconds,                \
            "Time of one model step over all running requests")                                           \
  HISTOGRAM(kStepPartDuration, "numoe_step_part_duration_seconds", kCoordinator, "part", kMicroseconds,   \
            "Time of one part of the model in a step, all layers together")                               \
  HISTOGRAM(kStepTokens, "numoe_step_tokens", kCoordinator, "", kPowersOfTwo, "Tokens in a model step")   \
  COUNTER(kStepsByWay, "numoe_steps_by_way_total", kCoordinator, "way",                                   \
          "Model steps by their routed experts: whole, halves (two-batch overlap), or fetched")           \
  COUNTER(kStepsReplayed, "numoe_steps_replayed_total", kCoordinator, "",                                 \
          "Steps run again because a worker was lost in them")                                            \
  COUNTER(kSteps, "numoe_steps_total", kCoordinator, "", "Model steps completed")                         \
  COUNTER(kTenantTokens, "numoe_tenant_tokens_total", kCoordinator, "tenant",                             \
          "Tokens computed for each API key, prompts and answers, by the key's name")                     \
  GAUGE(kThreads, "numoe_threads", kWorker, "", "Compute threads")                                        \
  HISTOGRAM(kTimeToFirstToken, "numoe_time_to_first_token_seconds", kCoordinator, "", kMilliseconds,      \
            "Time from a request's arrival to its first token")                                           \
  COUNTER(kTokensGenerated, "numoe_tokens_generated_total", kCoordinator, "", "Tokens sampled")           \
  COUNTER(kTokensPrompt, "numoe_tokens_prompt_total", kCoordinator, "", "Prompt tokens accepted")         \
  COUNTER(kTraceSpansDropped, "numoe_trace_spans_dropped_total", kCoordinator, "",                        \
          "Spans of traces that did not reach --otlp-endpoint")                                           \
  COUNTER(kTraceSpansSent, "numoe_trace_spans_sent_total", kCoordinator, "",                              \
          "Spans of traces that --otlp-endpoint has taken")                                               \
  GAUGE(kWeightsBytes, "numoe_weights_bytes", kWorker, "", "Packed expert weights held in memory")        \
  GAUGE(kWeightsHugePages, "numoe_weights_huge_page_ratio", kWorker, "",                                  \
        "Share of the weights in huge pages, 0 to 1; absent where not known")                             \
  GAUGE(kWeightsLocal, "numoe_weights_local_ratio", kWorker, "",                                          \
        "Share of the weights' pages on the worker's NUMA nodes, 0 to 1; absent where not known")         \
  GAUGE(kWeightsOnNode, "numoe_weights_node_ratio", kWorker, "node",                                      \
        "Share of the weights' pages on each NUMA node, 0 to 1")                                          \
  HISTOGRAM(kWorkerCallDuration, "numoe_worker_call_duration_seconds", kCoordinator, "worker",            \
            kMicroseconds, "Time from sending a layer call to a worker until its answer")                 \
  COUNTER(kWorkerLost, "numoe_worker_lost_total", kCoordinator, "worker",                                 \
          "Times a worker's session was lost")                                                            \
  GAUGE(kWorkerNode, "numoe_worker_node", kWorker, "node", "1 for each of the worker's NUMA nodes")       \
  COUNTER(kWorkerRestarts, "numoe_worker_restarts_total", kWorker, "reason",                              \
          "Times a supervisor has started this worker again, by reason: ended or hung")                   \
  GAUGE(kWorkerUp, "numoe_worker_up", kCoordinator, "worker", "1 while the worker serves its slice, else 0")
