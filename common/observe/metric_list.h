// Every metric of the daemons, sorted by name: the one list that code, dashboards and documents take their
// words from.
//
//   COUNTER(id, name, owner, labels, help)             only rises; the name ends in _total
//   GAUGE(id, name, owner, labels, help)
//   HISTOGRAM(id, name, owner, labels, buckets, help)  the name ends in its unit; kFew has none
// owner: kCoordinator, kWorker, kRouter, or kBoth (the first two), kServers (those with the API), kAll.
// labels: names separated by commas. metrics.cc checks the rules at compile time.
//
// NUMOE_METRIC_ALIASES: the coordinator's metrics under the names of vLLM and SGLang as well, which
// dashboards, autoscalers and endpoint pickers know: ALIAS(name, ours, labels, their labels), sorted by name.
// Both names of one are there where a project has renamed it.
#pragma once

#define NUMOE_METRIC_ALIASES(ALIAS)                                                                 \
  ALIAS("sglang:cache_config_info", "numoe_kv_cache_info", "block_size,num_gpu_blocks",             \
        "page_size,num_pages")                                                                      \
  ALIAS("sglang:cache_hit_rate", "numoe_prefix_cache_hit_ratio", "", "")                            \
  ALIAS("sglang:cached_tokens_total", "numoe_prefix_cache_hit_tokens_total", "", "")                \
  ALIAS("sglang:e2e_request_latency_seconds", "numoe_request_duration_seconds", "", "")             \
  ALIAS("sglang:gen_throughput", "numoe_tokens_generated_per_second", "", "")                       \
  ALIAS("sglang:generation_tokens_total", "numoe_tokens_generated_total", "", "")                   \
  ALIAS("sglang:inter_token_latency_seconds", "numoe_inter_token_latency_seconds", "", "")          \
  ALIAS("sglang:num_queue_reqs", "numoe_requests_waiting", "", "")                                  \
  ALIAS("sglang:num_requests_total", "numoe_requests_finished_total", "", "")                       \
  ALIAS("sglang:num_running_reqs", "numoe_requests_running", "", "")                                \
  ALIAS("sglang:num_used_tokens", "numoe_kv_tokens_used", "", "")                                   \
  ALIAS("sglang:prompt_tokens_total", "numoe_tokens_prompt_total", "", "")                          \
  ALIAS("sglang:queue_time_seconds", "numoe_queue_wait_seconds", "", "")                            \
  ALIAS("sglang:time_to_first_token_seconds", "numoe_time_to_first_token_seconds", "", "")          \
  ALIAS("sglang:token_usage", "numoe_kv_usage_ratio", "", "")                                       \
  ALIAS("vllm:cache_config_info", "numoe_kv_cache_info", "", "")                                    \
  ALIAS("vllm:e2e_request_latency_seconds", "numoe_request_duration_seconds", "", "")               \
  ALIAS("vllm:generation_tokens_total", "numoe_tokens_generated_total", "", "")                     \
  ALIAS("vllm:gpu_cache_usage_perc", "numoe_kv_usage_ratio", "", "")                                \
  ALIAS("vllm:inter_token_latency_seconds", "numoe_inter_token_latency_seconds", "", "")            \
  ALIAS("vllm:iteration_tokens_total", "numoe_step_tokens", "", "")                                 \
  ALIAS("vllm:kv_cache_usage_perc", "numoe_kv_usage_ratio", "", "")                                 \
  ALIAS("vllm:lora_requests_info", "numoe_lora_adapters_info", "", "")                              \
  ALIAS("vllm:num_preemptions_total", "numoe_preemptions_total", "", "")                            \
  ALIAS("vllm:num_requests_running", "numoe_requests_running", "", "")                              \
  ALIAS("vllm:num_requests_waiting", "numoe_requests_waiting", "", "")                              \
  ALIAS("vllm:prefix_cache_hits_total", "numoe_prefix_cache_hit_tokens_total", "", "")              \
  ALIAS("vllm:prefix_cache_queries_total", "numoe_prefix_cache_query_tokens_total", "", "")         \
  ALIAS("vllm:prompt_tokens_total", "numoe_tokens_prompt_total", "", "")                            \
  ALIAS("vllm:request_decode_time_seconds", "numoe_request_decode_seconds", "", "")                 \
  ALIAS("vllm:request_generation_tokens", "numoe_request_generation_tokens", "", "")                \
  ALIAS("vllm:request_inference_time_seconds", "numoe_request_inference_seconds", "", "")           \
  ALIAS("vllm:request_max_num_generation_tokens", "numoe_request_generation_tokens", "", "")        \
  ALIAS("vllm:request_params_max_tokens", "numoe_request_max_tokens", "", "")                       \
  ALIAS("vllm:request_params_n", "numoe_request_choices", "", "")                                   \
  ALIAS("vllm:request_prefill_time_seconds", "numoe_request_prefill_seconds", "", "")               \
  ALIAS("vllm:request_prompt_tokens", "numoe_request_prompt_tokens", "", "")                        \
  ALIAS("vllm:request_queue_time_seconds", "numoe_queue_wait_seconds", "", "")                      \
  ALIAS("vllm:request_success_total", "numoe_requests_finished_total", "reason", "finished_reason") \
  ALIAS("vllm:request_time_per_output_token_seconds", "numoe_request_token_seconds", "", "")        \
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
  GAUGE(kKvCacheInfo, "numoe_kv_cache_info", kCoordinator,                                                \
        "block_size,num_gpu_blocks,cache_dtype,enable_prefix_caching",                                    \
        "Always 1: tokens of a block of the KV cache, how many blocks there are, and their format")       \
  GAUGE(kKvTokensUsed, "numoe_kv_tokens_used", kCoordinator, "", "Tokens that used blocks have room for") \
  GAUGE(kKvUsage, "numoe_kv_usage_ratio", kCoordinator, "", "Share of the KV cache in use, 0 to 1")       \
  GAUGE(kLoadBytes, "numoe_load_bytes", kWorker, "",                                                      \
        "Bytes of the checkpoint that this worker reads to load its slice")                               \
  GAUGE(kLoadBytesDone, "numoe_load_bytes_done", kWorker, "", "Those of them that have been read")        \
  GAUGE(kLoadSeconds, "numoe_load_seconds", kWorker, "", "Time that loading the slice has taken")         \
  GAUGE(kLoraAdapters, "numoe_lora_adapters_info", kCoordinator,                                          \
        "max_lora,running_lora_adapters,waiting_lora_adapters",                                           \
        "Always 1 and none: NUMoE serves no LoRA adapters, but endpoint pickers ask for them")            \
  GAUGE(kMailboxLocal, "numoe_mailbox_local_ratio", kWorker, "",                                          \
        "Least share of a session's mailbox on the worker's NUMA nodes, 0 to 1; absent where not known")  \
  GAUGE(kPinned, "numoe_pinned", kWorker, "",                                                             \
        "1 if every compute thread is bound to a CPU of its own, and sessions' threads to it or to "      \
        "the node's CPUs, else 0")                                                                        \
  COUNTER(kPreemptions, "numoe_preemptions_total", kCoordinator, "",                                      \
          "Sequences put back into the queue because the KV cache was full")                              \
  GAUGE(kPrefixHitRatio, "numoe_prefix_cache_hit_ratio", kCoordinator, "",                                \
        "Share of the latest prompt that the prefix cache had, 0 to 1")                                   \
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
  HISTOGRAM(kRequestChoices, "numoe_request_choices", kCoordinator, "", kFew,                             \
            "Answers to a prompt that a request asked for (n)")                                           \
  HISTOGRAM(kRequestDecode, "numoe_request_decode_seconds", kCoordinator, "", kMilliseconds,              \
            "Time from an answer's first token to its last")                                              \
  HISTOGRAM(kRequestDuration, "numoe_request_duration_seconds", kCoordinator, "", kMilliseconds,          \
            "Time from a request's arrival to its last token")                                            \
  HISTOGRAM(kRequestGeneratedTokens, "numoe_request_generation_tokens", kCoordinator, "", kManyTokens,    \
            "Tokens of an answer")                                                                        \
  HISTOGRAM(kRequestInference, "numoe_request_inference_seconds", kCoordinator, "", kMilliseconds,        \
            "Time from an answer's first step to its last token")                                         \
  HISTOGRAM(kRequestMaxTokens, "numoe_request_max_tokens", kCoordinator, "", kManyTokens,                 \
            "Tokens that an answer might have had")                                                       \
  HISTOGRAM(kRequestPrefill, "numoe_request_prefill_seconds", kCoordinator, "", kMilliseconds,            \
            "Time from an answer's first step to its first token")                                        \
  HISTOGRAM(kRequestPromptTokens, "numoe_request_prompt_tokens", kCoordinator, "", kManyTokens,           \
            "Tokens of a prompt")                                                                         \
  HISTOGRAM(kRequestToken, "numoe_request_token_seconds", kCoordinator, "", kMilliseconds,                \
            "Mean time of a token after an answer's first")                                               \
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
  GAUGE(kTokensPerSecond, "numoe_tokens_generated_per_second", kCoordinator, "",                          \
        "Tokens sampled a second, of the last second or more in which something ran; else 0")             \
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
  GAUGE(kWorkerInfo, "numoe_worker_info", kWorker, "worker,index,count",                                  \
        "Always 1: the address at which this worker listens, and which slice of how many it has")         \
  COUNTER(kWorkerLost, "numoe_worker_lost_total", kCoordinator, "worker",                                 \
          "Times a worker's session was lost")                                                            \
  GAUGE(kWorkerNode, "numoe_worker_node", kWorker, "node", "1 for each of the worker's NUMA nodes")       \
  COUNTER(kWorkerRestarts, "numoe_worker_restarts_total", kWorker, "reason",                              \
          "Times a supervisor has started this worker again, by reason: ended or hung")                   \
  GAUGE(kWorkerUp, "numoe_worker_up", kCoordinator, "worker",                                             \
        "1 while the worker serves its slice, and else 0")                                                \
  COUNTER(kProcessCpu, "process_cpu_seconds_total", kAll, "", "CPU time that the process has taken")      \
  GAUGE(kProcessMaxFds, "process_max_fds", kAll, "", "Files that the process may have open")              \
  GAUGE(kProcessOpenFds, "process_open_fds", kAll, "", "Files that the process has open")                 \
  GAUGE(kProcessResident, "process_resident_memory_bytes", kAll, "", "Resident memory")                   \
  GAUGE(kProcessStart, "process_start_time_seconds", kAll, "", "Unix time of the process's start")        \
  GAUGE(kProcessVirtual, "process_virtual_memory_bytes", kAll, "", "Virtual memory")
