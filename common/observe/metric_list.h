// Every metric of the daemons, sorted by name. Code, dashboards and documents take the names from this list.
//
//   COUNTER(id, name, owner, labels, help)             only rises; the name ends in _total
//   GAUGE(id, name, owner, labels, help)
//   HISTOGRAM(id, name, owner, labels, buckets, help)  the name ends in its unit, except with buckets kFew
// owner: kCoordinator, kWorker, kRouter, or kBoth (the first two), kServers (those with the API), kAll.
// labels: names separated by commas. metrics.cc checks the rules at compile time.
//
// NUMOE_METRIC_ALIASES: the coordinator's metrics under the names of vLLM and SGLang, which dashboards,
// autoscalers and endpoint pickers know: ALIAS(name, ours, labels, their labels), sorted by name. If a
// project has renamed a metric, both of its names are in the list.
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

#define NUMOE_METRICS(COUNTER, GAUGE, HISTOGRAM)                                                             \
  GAUGE(kBuildInfo, "numoe_build_info", kAll, "version,isa",                                                 \
        "Always 1; the labels are the program's version and the instruction set of its kernels")             \
  GAUGE(kCertificateExpiry, "numoe_certificate_expiry_timestamp_seconds", kAll, "flag",                      \
        "Unix time at which the TLS certificate in use expires, by the flag that names its file")            \
  HISTOGRAM(kExpertCallDuration, "numoe_expert_call_duration_seconds", kWorker, "", kMicroseconds,           \
            "Time to compute one layer call, without transport")                                             \
  HISTOGRAM(kExpertCallTokens, "numoe_expert_call_tokens", kWorker, "", kPowersOfTwo,                        \
            "Number of tokens in one layer call")                                                            \
  COUNTER(kExpertCallsFailed, "numoe_expert_calls_failed_total", kWorker, "",                                \
          "Layer calls that this worker answered with an error")                                             \
  GAUGE(kExpertHottest, "numoe_expert_hottest_ratio", kWorker, "layer",                                      \
        "Share (0 to 1) of a layer's recent token rows that the most used eighth of its experts computed")   \
  HISTOGRAM(kExpertRowsOfCall, "numoe_expert_rows_of_call_tokens", kWorker, "", kPowersOfTwo,                \
            "Token rows that one expert computes in one layer call, for each expert that the call uses")     \
  COUNTER(kExpertRows, "numoe_expert_rows_total", kWorker, "layer",                                          \
          "Token rows that this worker's experts have computed, by layer; GET /expert_stats of the "         \
          "coordinator lists every expert")                                                                  \
  GAUGE(kExpertSessions, "numoe_expert_sessions", kWorker, "",                                               \
        "Number of coordinators that are connected to this worker")                                          \
  COUNTER(kExpertWeightBytes, "numoe_expert_weight_bytes_total", kWorker, "",                                \
          "Bytes of expert weights that layer calls have read; the rate is their memory bandwidth")          \
  COUNTER(kGpuExpertSelections, "numoe_gpu_expert_selections_total", kCoordinator, "where",                  \
          "Routed experts selected by tokens, by where they were computed: gpu or workers")                  \
  COUNTER(kGpuExpertSwaps, "numoe_gpu_expert_swaps_total", kCoordinator, "",                                 \
          "Experts that were loaded onto the GPU while serving, in place of less used ones")                 \
  COUNTER(kHttpAnswersCut, "numoe_http_answers_cut_total", kServers, "",                                     \
          "Answers that were cut off because the client did not read them")                                  \
  COUNTER(kHttpRequests, "numoe_http_requests_total", kServers, "path,status",                               \
          "HTTP requests that were answered, by path and status code")                                       \
  HISTOGRAM(kInterTokenLatency, "numoe_inter_token_latency_seconds", kCoordinator, "", kMilliseconds,        \
            "Time between two successive tokens of an answer")                                               \
  GAUGE(kKvBlocksCapacity, "numoe_kv_blocks_capacity", kCoordinator, "", "Number of blocks in the KV cache") \
  GAUGE(kKvBlocksUsed, "numoe_kv_blocks_used", kCoordinator, "",                                             \
        "Number of KV cache blocks that running sequences use")                                              \
  GAUGE(kKvCacheInfo, "numoe_kv_cache_info", kCoordinator,                                                   \
        "block_size,num_gpu_blocks,cache_dtype,enable_prefix_caching",                                       \
        "Always 1; the labels are the tokens per block of the KV cache, the number of blocks, their data "   \
        "type, and whether prefix caching is on")                                                            \
  GAUGE(kKvTokensUsed, "numoe_kv_tokens_used", kCoordinator, "",                                             \
        "Number of tokens that the used KV cache blocks have room for")                                      \
  GAUGE(kKvUsage, "numoe_kv_usage_ratio", kCoordinator, "",                                                  \
        "Share (0 to 1) of the KV cache that running sequences use")                                         \
  GAUGE(kLoadBytes, "numoe_load_bytes", kWorker, "",                                                         \
        "Bytes of the checkpoint that this worker has to read to load its slice")                            \
  GAUGE(kLoadBytesDone, "numoe_load_bytes_done", kWorker, "",                                                \
        "Bytes of the checkpoint that this worker has read so far to load its slice")                        \
  GAUGE(kLoadSeconds, "numoe_load_seconds", kWorker, "", "Time that loading the slice has taken so far")     \
  GAUGE(kLoraAdapters, "numoe_lora_adapters_info", kCoordinator,                                             \
        "max_lora,running_lora_adapters,waiting_lora_adapters",                                              \
        "Always 1, with no adapter in its labels: NUMoE serves no LoRA adapters, but endpoint pickers read " \
        "this metric")                                                                                       \
  GAUGE(kMailboxLocal, "numoe_mailbox_local_ratio", kWorker, "",                                             \
        "Smallest share (0 to 1) of any session's shared-memory mailbox that is on the worker's NUMA "       \
        "nodes; absent if unknown")                                                                          \
  GAUGE(kPinned, "numoe_pinned", kWorker, "",                                                                \
        "1 if each compute thread is bound to a CPU of its own and the threads of sessions are bound to "    \
        "such a CPU or to the CPUs of the node, otherwise 0")                                                \
  COUNTER(kPreemptions, "numoe_preemptions_total", kCoordinator, "",                                         \
          "Times that a running sequence gave up its KV cache and went back into the queue, for example "    \
          "because the cache was full")                                                                      \
  GAUGE(kPrefixHitRatio, "numoe_prefix_cache_hit_ratio", kCoordinator, "",                                   \
        "Share (0 to 1) of the tokens of the sequence admitted last that were found in the prefix cache")    \
  COUNTER(kPrefixHitTokens, "numoe_prefix_cache_hit_tokens_total", kCoordinator, "",                         \
          "Tokens that were found in the prefix cache when sequences were admitted: of prompts, and after "  \
          "a preemption also of the answer so far")                                                          \
  COUNTER(kPrefixQueryTokens, "numoe_prefix_cache_query_tokens_total", kCoordinator, "",                     \
          "Tokens that were looked up in the prefix cache when sequences were admitted: of prompts, and "    \
          "after a preemption also of the answer so far")                                                    \
  GAUGE(kPreflightFailed, "numoe_preflight_failed", kWorker, "check",                                        \
        "1 if this check of --preflight failed when the worker started, otherwise 0")                        \
  HISTOGRAM(kQueueWait, "numoe_queue_wait_seconds", kCoordinator, "", kMilliseconds,                         \
            "Time from a request's arrival until it leaves the queue for its first step")                    \
  COUNTER(kReceivedBytes, "numoe_received_bytes_total", kCoordinator, "peer",                                \
          "Payload bytes of layer calls that were received from this worker")                                \
  HISTOGRAM(kRequestChoices, "numoe_request_choices", kCoordinator, "", kFew,                                \
            "Number of answers to one prompt that a request asked for (n)")                                  \
  HISTOGRAM(kRequestDecode, "numoe_request_decode_seconds", kCoordinator, "", kMilliseconds,                 \
            "Time from the first token of an answer to its last token")                                      \
  HISTOGRAM(kRequestDuration, "numoe_request_duration_seconds", kCoordinator, "", kMilliseconds,             \
            "Time from a request's arrival to its end")                                                      \
  HISTOGRAM(kRequestGeneratedTokens, "numoe_request_generation_tokens", kCoordinator, "", kManyTokens,       \
            "Number of tokens in an answer")                                                                 \
  HISTOGRAM(kRequestInference, "numoe_request_inference_seconds", kCoordinator, "", kMilliseconds,           \
            "Time from the first step of an answer to its last token")                                       \
  HISTOGRAM(kRequestMaxTokens, "numoe_request_max_tokens", kCoordinator, "", kManyTokens,                    \
            "Maximum number of tokens that an answer was allowed to have")                                   \
  HISTOGRAM(kRequestPrefill, "numoe_request_prefill_seconds", kCoordinator, "", kMilliseconds,               \
            "Time from the first step of an answer to its first token")                                      \
  HISTOGRAM(kRequestPromptTokens, "numoe_request_prompt_tokens", kCoordinator, "", kManyTokens,              \
            "Number of tokens in a prompt")                                                                  \
  HISTOGRAM(kRequestToken, "numoe_request_token_seconds", kCoordinator, "", kMilliseconds,                   \
            "Mean time per token of an answer, without its first token")                                     \
  COUNTER(kRequestsFinished, "numoe_requests_finished_total", kCoordinator, "reason",                        \
          "Requests that ended, by reason: stop, length, cancelled or error; each answer counts as one")     \
  COUNTER(kRequestsRejected, "numoe_requests_rejected_total", kCoordinator, "",                              \
          "Requests refused with status 429 because the queue was full")                                     \
  GAUGE(kRequestsRunning, "numoe_requests_running", kCoordinator, "",                                        \
        "Number of requests that take part in model steps; each answer counts as one")                       \
  GAUGE(kRequestsWaiting, "numoe_requests_waiting", kCoordinator, "",                                        \
        "Number of requests in the queue; each answer counts as one")                                        \
  GAUGE(kRouterBackendUp, "numoe_router_backend_up", kRouter, "backend",                                     \
        "1 if this coordinator is ready for requests, otherwise 0")                                          \
  GAUGE(kRouterPrefixes, "numoe_router_prefixes", kRouter, "",                                               \
        "Number of prompt prefixes for which the router remembers a coordinator")                            \
  GAUGE(kRouterRequestsRunning, "numoe_router_requests_running", kRouter, "backend",                         \
        "Number of requests that were passed on to this coordinator and are not answered yet")               \
  COUNTER(kRouterRequests, "numoe_router_requests_total", kRouter, "backend,by",                             \
          "Requests that were passed on to this coordinator, by what decided the choice: prefix, load or "   \
          "response")                                                                                        \
  COUNTER(kRouterRetries, "numoe_router_retries_total", kRouter, "backend",                                  \
          "Requests that this coordinator refused or could not take, and that were tried elsewhere")         \
  COUNTER(kSentBytes, "numoe_sent_bytes_total", kCoordinator, "peer",                                        \
          "Payload bytes of layer calls that were sent to this worker")                                      \
  HISTOGRAM(kStepDuration, "numoe_step_duration_seconds", kCoordinator, "", kMilliseconds,                   \
            "Time of one model step")                                                                        \
  HISTOGRAM(kStepPartDuration, "numoe_step_part_duration_seconds", kCoordinator, "part", kMicroseconds,      \
            "Time of one part of the model in a step, all layers together")                                  \
  HISTOGRAM(kStepTokens, "numoe_step_tokens", kCoordinator, "", kPowersOfTwo,                                \
            "Number of tokens in one model step")                                                            \
  COUNTER(kStepsByWay, "numoe_steps_by_way_total", kCoordinator, "way",                                      \
          "Model steps by how their routed experts were computed: whole (by the workers, in one piece), "    \
          "halves (two-batch overlap) or fetched (by the GPU, with the workers' weights)")                   \
  COUNTER(kStepsReplayed, "numoe_steps_replayed_total", kCoordinator, "",                                    \
          "Model steps that were repeated because a worker was lost during them")                            \
  COUNTER(kSteps, "numoe_steps_total", kCoordinator, "", "Model steps completed")                            \
  COUNTER(kTenantTokens, "numoe_tenant_tokens_total", kCoordinator, "tenant",                                \
          "Tokens that were computed for each API key, of prompts and answers, by the name of the key")      \
  GAUGE(kThreads, "numoe_threads", kWorker, "", "Number of compute threads")                                 \
  HISTOGRAM(kTimeToFirstToken, "numoe_time_to_first_token_seconds", kCoordinator, "", kMilliseconds,         \
            "Time from a request's arrival to its first token")                                              \
  GAUGE(kTokensPerSecond, "numoe_tokens_generated_per_second", kCoordinator, "",                             \
        "Tokens generated per second, measured over the latest period of at least one second in which "      \
        "requests ran; 0 while none run")                                                                    \
  COUNTER(kTokensGenerated, "numoe_tokens_generated_total", kCoordinator, "", "Tokens generated")            \
  COUNTER(kTokensPrompt, "numoe_tokens_prompt_total", kCoordinator, "",                                      \
          "Prompt tokens of accepted requests")                                                              \
  COUNTER(kTraceSpansDropped, "numoe_trace_spans_dropped_total", kCoordinator, "",                           \
          "Spans of request traces that did not reach --otlp-endpoint")                                      \
  COUNTER(kTraceSpansSent, "numoe_trace_spans_sent_total", kCoordinator, "",                                 \
          "Spans of request traces that --otlp-endpoint has accepted")                                       \
  GAUGE(kWeightsBytes, "numoe_weights_bytes", kWorker, "", "Bytes of packed expert weights in memory")       \
  GAUGE(kWeightsHugePages, "numoe_weights_huge_page_ratio", kWorker, "",                                     \
        "Share (0 to 1) of the weights that is in huge pages; absent if unknown")                            \
  GAUGE(kWeightsLocal, "numoe_weights_local_ratio", kWorker, "",                                             \
        "Share (0 to 1) of the weights' pages that are on the worker's NUMA nodes; absent if unknown")       \
  GAUGE(kWeightsOnNode, "numoe_weights_node_ratio", kWorker, "node",                                         \
        "Share (0 to 1) of the weights' pages that are on each NUMA node")                                   \
  HISTOGRAM(kWorkerCallDuration, "numoe_worker_call_duration_seconds", kCoordinator, "worker",               \
            kMicroseconds, "Time from sending a layer call to a worker until its answer has arrived")        \
  GAUGE(kWorkerInfo, "numoe_worker_info", kWorker, "worker,index,count",                                     \
        "Always 1; the labels are the address at which this worker listens, the number of its slice "        \
        "(index) and the number of all slices (count)")                                                      \
  COUNTER(kWorkerLost, "numoe_worker_lost_total", kCoordinator, "worker",                                    \
          "Times that the session with this worker was lost")                                                \
  GAUGE(kWorkerNode, "numoe_worker_node", kWorker, "node",                                                   \
        "Always 1, for each NUMA node that the worker uses")                                                 \
  COUNTER(kWorkerRestarts, "numoe_worker_restarts_total", kWorker, "reason",                                 \
          "Times that the supervisor has restarted this worker, by reason: ended or hung")                   \
  GAUGE(kWorkerUp, "numoe_worker_up", kCoordinator, "worker",                                                \
        "1 if the coordinator has a session with this worker, otherwise 0")                                  \
  COUNTER(kProcessCpu, "process_cpu_seconds_total", kAll, "", "CPU time that the process has used")          \
  GAUGE(kProcessMaxFds, "process_max_fds", kAll, "",                                                         \
        "Maximum number of files that the process may have open")                                            \
  GAUGE(kProcessOpenFds, "process_open_fds", kAll, "", "Number of files that the process has open")          \
  GAUGE(kProcessResident, "process_resident_memory_bytes", kAll, "", "Resident memory of the process")       \
  GAUGE(kProcessStart, "process_start_time_seconds", kAll, "", "Unix time at which the process started")     \
  GAUGE(kProcessVirtual, "process_virtual_memory_bytes", kAll, "", "Virtual memory of the process")
