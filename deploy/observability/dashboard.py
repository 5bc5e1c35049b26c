#!/usr/bin/env python3
"""Writes the Grafana dashboard: dashboard.py >helm/numoe/files/dashboards/numoe.json

What is shown stands in ROWS, one line for each query; the rest is Grafana's form. tests/deploy checks that the file is current
and that every query finds data in a Prometheus which scrapes real daemons under load.
"""
import json
import sys

J = 'job=~"$job"'
RATE = "$__rate_interval"
COLUMNS, HEIGHT = 24, 8


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
    """A worker's value on each of its NUMA nodes: its nodes do equal parts."""
    nodes = f"count by (job, instance) (numoe_worker_node{{{J}}})"
    return f"({per_worker} / on (job, instance) {nodes}) * on (job, instance) group_right () numoe_worker_node{{{J}}}"


def by_instance(metric):
    return rate(metric, J, "job, instance")


PARTS = rate("numoe_step_part_duration_seconds_sum", J, "part")

# (row, [(panel, unit, what to look for, [(legend, query)])]); a legend names labels as {{label}}.
ROWS = [
    ("Service", [
        ("Requests ended", "reqps", "By reason; error and cancelled are the clients' view of trouble.",
         [("{{reason}}", rate("numoe_requests_finished_total", J, "reason"))]),
        ("Running and waiting", "short", "Waiting that does not fall back to 0: the server is too small for the load.",
         [("running", f"sum(numoe_requests_running{{{J}}})"), ("waiting", f"sum(numoe_requests_waiting{{{J}}})")]),
        ("Throughput", "short", "Tokens a second, of prompts and of answers.",
         [("generated", rate("numoe_tokens_generated_total")), ("prompt", rate("numoe_tokens_prompt_total"))]),
        ("Workers up", "short", "As each coordinator sees them: two that share two workers count four. Fewer than known: requests wait for "
         "the missing slice.",
         [("up", f"sum(numoe_worker_up{{{J}}})"), ("known", f"count(numoe_worker_up{{{J}}})")]),
        ("Time to first token", "s", "Queue and prompt.", quantiles("numoe_time_to_first_token_seconds")),
        ("Time between tokens", "s", "What a reader feels.", quantiles("numoe_inter_token_latency_seconds")),
        ("Request duration", "s", "From arrival to the last token.", quantiles("numoe_request_duration_seconds")),
        ("Wait in the queue", "s", "Part of the time to the first token.", quantiles("numoe_queue_wait_seconds")),
    ]),
    ("Scheduler and KV cache", [
        ("Throughput of keys", "short", "Tokens a second, of prompts and of answers, by the names of API keys; one line at 0 without keys.",
         [("{{tenant}}", rate("numoe_tenant_tokens_total", J, "tenant") + " or vector(0)")]),
        ("KV cache in use", "percentunit", "Near 1, sequences are put back (preemptions).",
         [("{{instance}}", f"numoe_kv_usage_ratio{{{J}}}")]),
        ("KV cache blocks", "short", "", [("used", f"sum(numoe_kv_blocks_used{{{J}}})"),
                                          ("there are", f"sum(numoe_kv_blocks_capacity{{{J}}})")]),
        ("Prompt tokens found in the cache", "percentunit", "Of those looked up: prefixes seen before.",
         [("found", f"{rate('numoe_prefix_cache_hit_tokens_total')} / {rate('numoe_prefix_cache_query_tokens_total')}")]),
        ("Preemptions", "ops", "Sequences computed again: the cache is too small for max-num-seqs.",
         [("preemptions", rate("numoe_preemptions_total"))]),
        ("Steps", "ops", "halves: cut in two, of which the device computes one while the workers have the other. fetched: prompts whose "
         "experts the GPU computes.", [("{{way}}", rate("numoe_steps_by_way_total", J, "way"))]),
        ("Step duration", "s", "", quantiles("numoe_step_duration_seconds")),
        ("Tokens in a step", "short", "The batch: prompts and one token for each answer.", quantiles("numoe_step_tokens")),
    ]),
    ("Where a step's time goes", [
        ("Parts of a step", "s", "Mean of a step. 'experts' is the wait for the workers (CPU); the others run on the coordinator's "
         "device (GPU or CPU).", [("{{part}}", f"{PARTS} / on () group_left () {rate('numoe_steps_total')}")]),
        ("Workers' share of a step", "percentunit", "The split between the experts' memory and the coordinator's device: what "
         "limits the speed.", [("experts", rate("numoe_step_part_duration_seconds_sum", J + ', part="experts"') +
                                " / " + rate("numoe_step_part_duration_seconds_sum"))]),
        ("Layer call to a worker", "s", "p99 by worker, with transport. One above the others: its node, its link or its memory.",
         [("{{worker}}", quantile(0.99, "numoe_worker_call_duration_seconds", "worker"))]),
        ("Time on the way", "s", "Mean of a layer call as the coordinator sees it less the slowest worker's computing.",
         [("transport", f"{mean('numoe_worker_call_duration_seconds')} - max({mean('numoe_expert_call_duration_seconds', 'instance')})")]),
    ]),
    ("Workers and NUMA nodes", [
        ("Load of a worker", "percentunit", "Share of the time that it computes.",
         [("{{instance}}", by_instance("numoe_expert_call_duration_seconds_sum"))]),
        ("Load of a NUMA node", "percentunit", "By the workers that live on it.",
         [("{{instance}} node {{node}}", on_nodes(by_instance("numoe_expert_call_duration_seconds_sum")))]),
        ("Bandwidth of a worker", "Bps", "Expert weights that layer calls need; numoe-kernel-bench limits says what the node can do.",
         [("{{instance}}", by_instance("numoe_expert_weight_bytes_total"))]),
        ("Bandwidth of a NUMA node", "Bps", "", [("{{instance}} node {{node}}", on_nodes(by_instance("numoe_expert_weight_bytes_total")))]),
        ("Bandwidth while computing", "Bps", "Of the time that the worker computes: compare with the node's limit.",
         [("{{instance}}", f"{by_instance('numoe_expert_weight_bytes_total')} / "
           f"{by_instance('numoe_expert_call_duration_seconds_sum')}")]),
        ("Rows of a worker", "short", "Token rows a second, all layers. Uneven with --slice=expert: hot experts on one worker.",
         [("{{instance}}", by_instance("numoe_expert_rows_total"))]),
        ("Sent to workers", "Bps", "", [("{{peer}}", rate("numoe_sent_bytes_total", J, "peer"))]),
        ("Received from workers", "Bps", "", [("{{peer}}", rate("numoe_received_bytes_total", J, "peer"))]),
        ("Coordinators of a worker", "short", "", [("{{instance}}", f"numoe_expert_sessions{{{J}}}")]),
        ("Threads", "short", "", [("{{instance}}", f"numoe_threads{{{J}}}")]),
        ("Threads pinned", "bool", "0 costs speed: see --preflight.", [("{{instance}}", f"numoe_pinned{{{J}}}")]),
        ("Settings that --preflight finds wrong", "short", "By check, as of the worker's start.",
         [("{{instance}} {{check}}", f"numoe_preflight_failed{{{J}}}")]),
        ("Weights on their nodes", "percentunit", "Absent where the kernel does not say.",
         [("{{instance}}", f"numoe_weights_local_ratio{{{J}}}")]),
        ("Mailboxes on their nodes", "percentunit", "The session's with the least. Absent without shared memory, and where the kernel does not say.",
         [("{{instance}}", f"numoe_mailbox_local_ratio{{{J}}}")]),
        ("Weights in huge pages", "percentunit", "", [("{{instance}}", f"numoe_weights_huge_page_ratio{{{J}}}")]),
        ("Weights", "bytes", "", [("{{instance}}", f"numoe_weights_bytes{{{J}}}")]),
        ("Loaded", "percentunit", "Of the bytes that a starting worker reads.",
         [("{{instance}}", f"numoe_load_bytes_done{{{J}}} / numoe_load_bytes{{{J}}}")]),
        ("Loading time", "s", "", [("{{instance}}", f"numoe_load_seconds{{{J}}}")]),
    ]),
    ("Expert heat", [
        ("Rows of a layer's hottest eighth", "percentunit", "By layer, faded with a half-life of 10 minutes: high is worth GPU experts. "
         "/expert_stats has every expert.", [("layer {{layer}}", f"max by (layer) (numoe_expert_hottest_ratio{{{J}}})")]),
        ("Where experts are computed", "short", "Selections a second, by the GPU and by the workers; none without experts on the GPU.",
         [("{{where}}", rate("numoe_gpu_expert_selections_total", J, "where") + " or on () vector(0)")]),
        ("Experts that came to the GPU", "ops", "Many all the time: what is asked changes faster than the choice follows.",
         [("exchanged", rate("numoe_gpu_expert_swaps_total"))]),
        ("Rows of a layer", "short", "Token rows a second.", [("layer {{layer}}", rate("numoe_expert_rows_total", J, "layer"))]),
        ("Tokens of an expert in a call", "short", "1: bound by memory; many: by arithmetic.", quantiles("numoe_expert_rows_of_call_tokens")),
        ("Tokens in a layer call", "short", "", quantiles("numoe_expert_call_tokens")),
    ]),
    ("Router", [
        ("Backends ready", "short", "Coordinators behind numoe-router that take requests; fewer than known: /health of the router says why.",
         [("ready", f"sum(numoe_router_backend_up{{{J}}})"), ("known", f"count(numoe_router_backend_up{{{J}}})")]),
        ("Requests of a backend", "reqps", "", [("{{backend}}", rate("numoe_router_requests_total", J, "backend"))]),
        ("What chose the backend", "reqps", "prefix: it computed the prompt's beginning; load: it had least to do.",
         [("{{by}}", rate("numoe_router_requests_total", J, "by"))]),
        ("Running on a backend", "short", "", [("{{backend}}", f"numoe_router_requests_running{{{J}}}")]),
        ("Tried elsewhere", "ops", "Requests that a backend refused or could not take.",
         [("{{backend}}", rate("numoe_router_retries_total", J, "backend") + " or on () vector(0)")]),
        ("Beginnings of prompts remembered", "short", "", [("{{instance}}", f"numoe_router_prefixes{{{J}}}")]),
    ]),
    ("Errors", [
        ("HTTP answers", "reqps", "By status.", [("{{status}}", rate("numoe_http_requests_total", J, "status"))]),
        ("Answers cut off", "reqps", "The client did not read them.", [("cut off", rate("numoe_http_answers_cut_total"))]),
        ("Refused: queue full", "reqps", "429.", [("refused", rate("numoe_requests_rejected_total"))]),
        ("Workers lost", "short", "In the last hour.", [("{{worker}}", f"increase(numoe_worker_lost_total{{{J}}}[1h])")]),
        ("Steps replayed", "ops", "After the loss of a worker.", [("replayed", rate("numoe_steps_replayed_total"))]),
        ("Layer calls failed", "ops", "Answered with an error: a bug or a broken link.",
         [("{{instance}}", by_instance("numoe_expert_calls_failed_total"))]),
        ("Trace spans", "ops", "Dropped: the collector does not take them.",
         [("sent", rate("numoe_trace_spans_sent_total")), ("dropped", rate("numoe_trace_spans_dropped_total"))]),
        ("Versions", "short", "More than one is an upgrade under way.",
         [("{{version}} {{isa}}", f"count by (version, isa) (numoe_build_info{{{J}}})")]),
    ]),
]


def panel(number, title, unit, description, queries, place):
    return {
        "id": number, "type": "timeseries", "title": title, "description": description,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 10, "showPoints": "never"}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [{"refId": chr(ord("A") + i), "expr": query, "legendFormat": legend,
                     "datasource": {"type": "prometheus", "uid": "${datasource}"}} for i, (legend, query) in enumerate(queries)],
    }


def dashboard():
    panels, y = [], 0
    for title, row in ROWS:
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}})
        y += 1
        per_line = 4
        width = COLUMNS // per_line
        for i, (name, unit, description, queries) in enumerate(row):
            place = {"x": i % per_line * width, "y": y + i // per_line * HEIGHT, "w": width, "h": HEIGHT}
            panels.append(panel(len(panels) + 1, name, unit, description, queries, place))
        y += (len(row) + per_line - 1) // per_line * HEIGHT
    variables = [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source", "hide": 0},
        {"name": "job", "type": "query", "label": "Job", "datasource": {"type": "prometheus", "uid": "${datasource}"},
         "query": {"query": "label_values(numoe_build_info, job)", "refId": "job"}, "includeAll": True, "multi": True,
         "allValue": ".*", "current": {"text": "All", "value": "$__all"}, "refresh": 2},
    ]
    return {"uid": "numoe", "title": "NUMoE", "tags": ["numoe"], "schemaVersion": 38, "version": 1, "editable": True,
            "refresh": "30s", "time": {"from": "now-1h", "to": "now"}, "timezone": "", "graphTooltip": 1,
            "templating": {"list": variables}, "annotations": {"list": []}, "panels": panels}


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=1)
    print()
