{{/* Parts of the network policies. */}}

{{/* A range of ports. Arguments: first, count. */}}
{{- define "numoe.portRange" -}}
- {port: {{ .first }}, endPort: {{ add (int .first) (int .count) -1 }}, protocol: TCP}
{{- end -}}

{{/* Lets the scrapers call the metrics ports of the workers. Arguments: root, workers (how many a host has). */}}
{{- define "numoe.metricsIngress" -}}
{{- if gt (int .workers) 0 }}
- ports:
    {{- include "numoe.portRange" (dict "first" .root.Values.workers.metricsPort "count" .workers) | nindent 4 }}
  {{- with .root.Values.networkPolicy.metricsFrom }}
  from:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/*
  The clients that may call the API if networkPolicy.apiFrom is not empty: those that it lists, those that scrape the metrics on the same
  port (also the endpoint picker), and helm test. Renders elements of a network policy's from, or nothing if everyone may call the API.
*/}}
{{- define "numoe.apiFrom" -}}
{{- $p := .Values.networkPolicy -}}
{{- if $p.apiFrom -}}
{{ concat $p.apiFrom $p.metricsFrom | toYaml }}
- podSelector:
    matchLabels:
      {{- include "numoe.selector" (dict "root" . "component" "test") | nindent 6 }}
{{- if and .Values.inferencePool.enabled .Values.inferencePool.picker.enabled }}
- podSelector:
    matchLabels:
      {{- include "numoe.selector" (dict "root" . "component" "picker") | nindent 6 }}
{{- end }}
{{- end -}}
{{- end -}}

{{/*
  What every pod may call: DNS, and what networkPolicy.extraEgress names. The egress of every policy begins with it. Some clusters apply
  policies to the port of the pod that answers, which is 5353 for DNS on OpenShift.
*/}}
{{- define "numoe.commonEgress" -}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}, {port: 5353, protocol: UDP}, {port: 5353, protocol: TCP}]
{{- with .Values.networkPolicy.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end -}}
