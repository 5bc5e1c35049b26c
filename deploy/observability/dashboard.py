#!/usr/bin/env python3
"""Writes the Grafana dashboard: dashboard.py >helm/numoe/files/dashboards/numoe.json

NOW, ROWS and GPU_ROW define what is shown, one line for each query; the rest is Grafana's format. tests/deploy checks that the
file is current, and that every query finds data in a Prometheus that scrapes real daemons under load. The chart gives the
dashboard of a release its own uid and title, and preselects that release (helm/numoe/templates/_alerts.tpl).
"""
import itertools
import json
import sys

# job is not among them, because coordinators, workers and the router have different jobs if the Prometheus operator scrapes them.
VARIABLES = ("namespace", "release", "pod")
J = ", ".join(f'{name}=~"${name}"' for name in VARIABLES)
RATE = "$__rate_interval"
COLUMNS, HEIGHT, TILE_HEIGHT = 24, 8, 4


def rate(metric, labels=J, by=""):
    return f"sum{by and f' by ({by}) '}(rate({metric}{{{labels}}}[{RATE}]))"


def quantile(q, metric, by=""):
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, {rate(metric + '_bucket', J, labels)})"


def quantiles(metric):
    return [(f"p{round(q * 100)}", quantile(q, metric)) for q in (0.5, 0.9, 0.99)]


def mean(metric, by=""):
    return f"{rate(metric + '_sum', J, by)} / {rate(metric + '_count', J, by)}"


def on_nodes(per_worker):
    """A worker's value divided evenly among its NUMA nodes, because these do equal parts of its work."""
    nodes = f"count by (job, instance) (numoe_worker_node{{{J}}})"
    return f"({per_worker} / on (job, instance) {nodes}) * on (job, instance) group_right () numoe_worker_node{{{J}}}"


def of_slices(per_worker):
    """A worker's value, with labels for its slice and for the address by which coordinators know it."""
    return f"{per_worker} * on (job, instance) group_left (worker, index, count) numoe_worker_info{{{J}}}"


def of_daemons(metric):
    """The metric for NUMoE's processes only; other programs have metrics of this name as well."""
    return f"{metric} * on (job, instance) group_left () numoe_build_info{{{J}}}"


def by_instance(metric):
    return rate(metric, J, "job, instance")


FAILED = rate("numoe_requests_finished_total", J + ', reason="error"')
PARTS = rate("numoe_step_part_duration_seconds_sum", J, "part")

# (tile, unit, what to look for, query, [(value at which a colour begins, colour)]): each tile shows one current number.
NOW = [
    ("Coordinators", "short", "Coordinators that Prometheus scrapes.", f"count(numoe_requests_running{{{J}}})", [(None, "green")]),
    ("Workers down", "short", "Workers that a coordinator cannot reach; requests wait until they are back.", f"sum(1 - numoe_worker_up{{{J}}})",
     [(None, "green"), (1, "red")]),
    ("Running now", "short", "Requests that are being computed.", f"sum(numoe_requests_running{{{J}}})", [(None, "green")]),
    ("Waiting now", "short", "Requests in the queue.", f"sum(numoe_requests_waiting{{{J}}})", [(None, "green"), (1, "yellow")]),
    ("Tokens a second", "short", "Generated tokens of all answers.", rate("numoe_tokens_generated_total"), [(None, "green")]),
    ("First token, p90", "s", "Time from a request's arrival to its first token: the wait in the queue and the prompt.", quantile(0.9, "numoe_time_to_first_token_seconds"), [(None, "green"), (30, "red")]),
    ("Fullest KV cache", "percentunit", "The coordinator whose KV cache is fullest.", f"max(numoe_kv_usage_ratio{{{J}}})", [(None, "green"), (0.95, "yellow")]),
    ("Requests that fail", "percentunit", "Share of the requests that ended with an error.",
     f"({FAILED} or vector(0)) / {rate('numoe_requests_finished_total')}",
     [(None, "green"), (0.02, "red")]),
]

# (row, [(panel, unit, what to look for, [(legend, query)])]); a legend names labels as {{label}}.
ROWS = [
    ("Service", [
        ("Requests ended", "reqps", "Requests that ended, by reason; error and cancelled mean that a client got no complete answer.",
         [("{{reason}}", rate("numoe_requests_finished_total", J, "reason"))]),
        ("Running and waiting", "short", "Waiting that does not fall back to 0: the server is too small for the load.",
         [("running", f"sum(numoe_requests_running{{{J}}})"), ("waiting", f"sum(numoe_requests_waiting{{{J}}})")]),
        ("Throughput", "short", "Tokens a second of prompts and of answers.",
         [("generated", rate("numoe_tokens_generated_total")), ("prompt", rate("numoe_tokens_prompt_total")),
          ("last second, {{instance}}", f"numoe_tokens_generated_per_second{{{J}}}")]),
        ("Workers up", "short", "Workers that each coordinator reaches; two coordinators that share two workers count four. Fewer than known: requests wait for "
         "the missing slice.",
         [("up", f"sum(numoe_worker_up{{{J}}})"), ("known", f"count(numoe_worker_up{{{J}}})")]),
        ("Time to first token", "s", "Time from a request's arrival to its first token: the wait in the queue and the prompt.", quantiles("numoe_time_to_first_token_seconds")),
        ("Time between tokens", "s", "Pause between two tokens of an answer.", quantiles("numoe_inter_token_latency_seconds")),
        ("Request duration", "s", "From arrival to the last token.", quantiles("numoe_request_duration_seconds")),
        ("Wait in the queue", "s", "Time from a request's arrival to its first step; part of the time to the first token.", quantiles("numoe_queue_wait_seconds")),
    ]),
    ("Requests", [
        ("Tokens of a prompt", "short", "", quantiles("numoe_request_prompt_tokens")),
        ("Tokens of an answer", "short", "", quantiles("numoe_request_generation_tokens")),
        ("Tokens that an answer may have", "short", "max_tokens, or what the context leaves.", quantiles("numoe_request_max_tokens")),
        ("Answers to a prompt", "short", "Mean of n, the number of answers that a request asks for.", [("n", mean("numoe_request_choices"))]),
        ("Computing the prompt", "s", "From the first step to the first token.", quantiles("numoe_request_prefill_seconds")),
        ("Generating", "s", "From the first token to the last.", quantiles("numoe_request_decode_seconds")),
        ("Computing, total", "s", "Time from the first step to the last token, without the wait in the queue.", quantiles("numoe_request_inference_seconds")),
        ("A token of an answer", "s", "Mean time for a token, of each answer.", quantiles("numoe_request_token_seconds")),
    ]),
    ("Scheduler and KV cache", [
        ("Throughput of keys", "short", "Tokens a second, of prompts and of answers, by the names of API keys; one line at 0 without keys.",
         [("{{tenant}}", rate("numoe_tenant_tokens_total", J, "tenant") + " or vector(0)")]),
        ("KV cache in use", "percentunit", "Near 1 the scheduler preempts sequences, which are computed again later.",
         [("{{instance}}", f"numoe_kv_usage_ratio{{{J}}}")]),
        ("KV cache blocks", "short", "", [("used", f"sum(numoe_kv_blocks_used{{{J}}})"),
                                          ("capacity", f"sum(numoe_kv_blocks_capacity{{{J}}})")]),
        ("Prompt tokens found in the cache", "percentunit", "Share of the prompts' tokens that the prefix cache had.",
         [("found", f"{rate('numoe_prefix_cache_hit_tokens_total')} / {rate('numoe_prefix_cache_query_tokens_total')}"),
          ("latest prompt, {{instance}}", f"numoe_prefix_cache_hit_ratio{{{J}}}")]),
        ("Tokens of the KV cache in use", "short", "Tokens that the blocks in use have room for.", [("{{instance}}", f"numoe_kv_tokens_used{{{J}}}")]),
        ("Preemptions", "ops", "Sequences that lost their KV cache and are computed again: the cache is too small for --max-num-seqs.",
         [("preemptions", rate("numoe_preemptions_total"))]),
        ("Steps", "ops", "halves: a step that is divided in two; the device computes one half while the workers compute the other. fetched: prompts whose "
         "experts the GPU computes.", [("{{way}}", rate("numoe_steps_by_way_total", J, "way"))]),
        ("Step duration", "s", "", quantiles("numoe_step_duration_seconds")),
        ("Tokens in a step", "short", "The batch: prompts and one token for each answer.", quantiles("numoe_step_tokens")),
    ]),
    ("Where a step's time goes", [
        ("Parts of a step", "s", "Mean of a step. 'experts' is the wait for the workers (CPU); the others run on the coordinator's "
         "device (GPU or CPU).", [("{{part}}", f"{PARTS} / on () group_left () {rate('numoe_steps_total')}")]),
        ("Workers' share of a step", "percentunit", "Near 1 the experts' memory limits the speed, near 0 the coordinator's "
         "device.", [("experts", rate("numoe_step_part_duration_seconds_sum", J + ', part="experts"') +
                                " / " + rate("numoe_step_part_duration_seconds_sum"))]),
        ("Layer call to a worker", "s", "p99 by worker, with transport. If one is above the others, look at its node, its link or its memory.",
         [("{{worker}}", quantile(0.99, "numoe_worker_call_duration_seconds", "worker"))]),
        ("Transport of a layer call", "s", "Mean duration of a layer call as the coordinator measures it, minus the time that the slowest worker computes.",
         [("transport", f"{mean('numoe_worker_call_duration_seconds')} - max({mean('numoe_expert_call_duration_seconds', 'instance')})")]),
    ]),
    ("Workers and NUMA nodes", [
        ("Load of a worker", "percentunit", "Share of the time that it computes.",
         [("slice {{index}} of {{count}} at {{worker}}", of_slices(by_instance("numoe_expert_call_duration_seconds_sum")))]),
        ("Load of a NUMA node", "percentunit", "Share of the time that the workers on the node compute.",
         [("{{instance}} node {{node}}", on_nodes(by_instance("numoe_expert_call_duration_seconds_sum")))]),
        ("Bandwidth of a worker", "Bps", "Expert weights that layer calls need; numoe-kernel-bench limits says what the node can do.",
         [("{{instance}}", by_instance("numoe_expert_weight_bytes_total"))]),
        ("Bandwidth of a NUMA node", "Bps", "", [("{{instance}} node {{node}}", on_nodes(by_instance("numoe_expert_weight_bytes_total")))]),
        ("Bandwidth while computing", "Bps", "Bytes of weights for each second that the worker computes; compare it with the limit of its NUMA node.",
         [("{{instance}}", f"{by_instance('numoe_expert_weight_bytes_total')} / "
           f"{by_instance('numoe_expert_call_duration_seconds_sum')}")]),
        ("Rows of a worker", "short", "Token rows a second, all layers. If they are uneven with --slice=expert, one worker has more of the hot experts.",
         [("{{instance}}", by_instance("numoe_expert_rows_total"))]),
        ("Sent to workers", "Bps", "", [("{{peer}}", rate("numoe_sent_bytes_total", J, "peer"))]),
        ("Received from workers", "Bps", "", [("{{peer}}", rate("numoe_received_bytes_total", J, "peer"))]),
        ("Coordinators of a worker", "short", "", [("{{instance}}", f"numoe_expert_sessions{{{J}}}")]),
        ("Threads", "short", "", [("{{instance}}", f"numoe_threads{{{J}}}")]),
        ("Threads pinned", "bool", "0 costs speed: see --preflight.", [("{{instance}}", f"numoe_pinned{{{J}}}")]),
        ("Settings that --preflight finds wrong", "short", "Findings by check, from the start of the worker.",
         [("{{instance}} {{check}}", f"numoe_preflight_failed{{{J}}}")]),
        ("Weights on their nodes", "percentunit", "Share of the weights that are on the worker's NUMA nodes; absent if the kernel does not tell.",
         [("{{instance}}", f"numoe_weights_local_ratio{{{J}}}")]),
        ("Mailboxes on their nodes", "percentunit", "Smallest share of a session's mailbox that is on the worker's NUMA nodes; absent without shared memory, or if the kernel does not tell.",
         [("{{instance}}", f"numoe_mailbox_local_ratio{{{J}}}")]),
        ("Weights in huge pages", "percentunit", "", [("{{instance}}", f"numoe_weights_huge_page_ratio{{{J}}}")]),
        ("Weights", "bytes", "", [("{{instance}}", f"numoe_weights_bytes{{{J}}}")]),
        ("Loaded", "percentunit", "Share of its weights that a starting worker has read.",
         [("{{instance}}", f"numoe_load_bytes_done{{{J}}} / numoe_load_bytes{{{J}}}")]),
        ("Loading time", "s", "", [("{{instance}}", f"numoe_load_seconds{{{J}}}")]),
    ]),
    ("Expert heat", [
        ("Rows of a layer's hottest eighth", "percentunit", "Share of a layer's rows that its most used eighth of experts computes, with a half-life of 10 minutes. If it is high, experts on a GPU are worth while. "
         "/expert_stats has every expert.", [("layer {{layer}}", f"max by (layer) (numoe_expert_hottest_ratio{{{J}}})")]),
        ("Rows of a layer", "short", "Token rows a second.", [("layer {{layer}}", rate("numoe_expert_rows_total", J, "layer"))]),
        ("Tokens of an expert in a call", "short", "With 1 token the memory's bandwidth limits the speed, with many tokens the arithmetic.", quantiles("numoe_expert_rows_of_call_tokens")),
        ("Tokens in a layer call", "short", "", quantiles("numoe_expert_call_tokens")),
    ]),
    ("Router", [
        ("Backends ready", "short", "Coordinators behind numoe-router that take requests; fewer than known: /health of the router says why.",
         [("ready", f"sum(numoe_router_backend_up{{{J}}})"), ("known", f"count(numoe_router_backend_up{{{J}}})")]),
        ("Requests of a backend", "reqps", "", [("{{backend}}", rate("numoe_router_requests_total", J, "backend"))]),
        ("What chose the backend", "reqps", "prefix: the backend has computed the prompt's beginning before; load: it had the least to do.",
         [("{{by}}", rate("numoe_router_requests_total", J, "by"))]),
        ("Running on a backend", "short", "", [("{{backend}}", f"numoe_router_requests_running{{{J}}}")]),
        ("Tried elsewhere", "ops", "Requests that a backend refused or could not take.",
         [("{{backend}}", rate("numoe_router_retries_total", J, "backend") + " or on () vector(0)")]),
        ("Beginnings of prompts remembered", "short", "", [("{{instance}}", f"numoe_router_prefixes{{{J}}}")]),
    ]),
    ("Processes", [
        ("CPUs", "short", "CPU time of each daemon, as a number of CPUs.", [("{{job}} {{instance}}", of_daemons(f"rate(process_cpu_seconds_total{{{J}}}[{RATE}])"))]),
        ("Resident memory", "bytes", "", [("{{job}} {{instance}}", of_daemons(f"process_resident_memory_bytes{{{J}}}"))]),
        ("Open files", "percentunit", "Share of the files that the process may open.",
         [("{{job}} {{instance}}", of_daemons(f"process_open_fds{{{J}}} / process_max_fds{{{J}}}"))]),
        ("Running for", "s", "Since the process began.", [("{{job}} {{instance}}", of_daemons(f"(time() - process_start_time_seconds{{{J}}})"))]),
    ]),
    ("Errors", [
        ("HTTP answers", "reqps", "Answers by HTTP status.", [("{{status}}", rate("numoe_http_requests_total", J, "status"))]),
        ("Answers cut off", "reqps", "The client did not read them.", [("cut off", rate("numoe_http_answers_cut_total"))]),
        ("Refused: queue full", "reqps", "Requests refused with status 429 because the queue is full.", [("refused", rate("numoe_requests_rejected_total"))]),
        ("Workers lost", "short", "Times in the last hour that a coordinator lost a worker.", [("{{worker}}", f"increase(numoe_worker_lost_total{{{J}}}[1h])")]),
        ("Steps replayed", "ops", "Steps that were computed again after the loss of a worker.", [("replayed", rate("numoe_steps_replayed_total"))]),
        ("Layer calls failed", "ops", "Answered with an error: a bug or a broken link.",
         [("{{instance}}", by_instance("numoe_expert_calls_failed_total"))]),
        ("Trace spans", "ops", "Spans that were sent and dropped; dropped ones are those that the collector does not take.",
         [("sent", rate("numoe_trace_spans_sent_total")), ("dropped", rate("numoe_trace_spans_dropped_total"))]),
        ("Versions", "short", "More than one is an upgrade under way.",
         [("{{version}} {{isa}}", f"count by (version, isa) (numoe_build_info{{{J}}})")]),
    ]),
]

# The row is collapsed at first, because without a GPU its panels are empty.
GPU_ROW = ("GPU", [
    ("Where experts are computed", "short", "Selections a second, by the GPU and by the workers; none without experts on the GPU.",
     [("{{where}}", rate("numoe_gpu_expert_selections_total", J, "where") + " or on () vector(0)")]),
    ("Experts that came to the GPU", "ops", "If there are always many, the requests change faster than the choice of experts can follow.",
     [("exchanged", rate("numoe_gpu_expert_swaps_total"))]),
])


DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def targets(queries):
    return [{"refId": chr(ord("A") + i), "expr": query, "legendFormat": legend, "datasource": DATASOURCE} for i, (legend, query) in enumerate(queries)]


def tile(number, title, unit, description, query, steps, place):
    return {
        "id": number, "type": "stat", "title": title, "description": description, "datasource": DATASOURCE, "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "thresholds": {
            "mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}}, "overrides": []},
        "options": {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "value", "graphMode": "area"},
        "targets": targets([("", query)]),
    }


def graph(number, title, unit, description, queries, place):
    return {
        "id": number, "type": "timeseries", "title": title, "description": description, "datasource": DATASOURCE, "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 10, "showPoints": "never"}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": targets(queries),
    }


def place_of(i, per_line, height, y):
    width = COLUMNS // per_line
    return {"x": i % per_line * width, "y": y + i // per_line * height, "w": width, "h": height}


def row_head(number, title, y, inside=None):
    return {"id": number, "type": "row", "title": title, "collapsed": inside is not None, "panels": inside or [],
            "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}}


def variables():
    out, chosen = [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source", "hide": 0}], []
    for name in VARIABLES:
        # All daemons have this metric, so the pods of workers and of the router are among the choices.
        values = f"label_values(numoe_build_info{{{', '.join(chosen)}}}, {name})"
        # "All" is ".*", which also matches series without the label: outside Kubernetes these labels do not exist.
        out.append({"name": name, "current": {"text": "All", "value": "$__all"}, "type": "query", "label": name.capitalize(),
                    "datasource": DATASOURCE, "query": {"query": values, "refId": name}, "includeAll": True, "multi": True,
                    "allValue": ".*", "refresh": 2})
        chosen.append(f'{name}=~"${name}"')
    return out


def dashboard():
    numbers = itertools.count(1)
    panels = [tile(next(numbers), *of, place_of(i, len(NOW), TILE_HEIGHT, 0)) for i, of in enumerate(NOW)]
    y, per_line = TILE_HEIGHT, 4
    for title, row in ROWS:
        panels.append(row_head(next(numbers), title, y))
        y += 1
        panels += [graph(next(numbers), *of, place_of(i, per_line, HEIGHT, y)) for i, of in enumerate(row)]
        y += (len(row) + per_line - 1) // per_line * HEIGHT
    title, row = GPU_ROW
    inside = [graph(next(numbers), *of, place_of(i, per_line, HEIGHT, y + 1)) for i, of in enumerate(row)]
    panels.append(row_head(next(numbers), title, y, inside))
    return {"uid": "numoe", "title": "NUMoE", "tags": ["numoe"], "schemaVersion": 42, "version": 1, "editable": True,
            "refresh": "30s", "time": {"from": "now-1h", "to": "now"}, "timezone": "", "graphTooltip": 1,
            "templating": {"list": variables()}, "annotations": {"list": []}, "panels": panels}


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=1)
    print()
