{{/* Parts of the network policies. */}}

{{/* Arguments: first, count. */}}
{{- define "numoe.portRange" -}}
- {port: {{ .first }}, endPort: {{ add (int .first) (int .count) -1 }}, protocol: TCP}
{{- end -}}

{{/* Arguments: root, workers. */}}
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
  Who may ask the API where it is narrowed: these, who scrapes the metrics that are on its port, the endpoint picker among them, and helm test. Elements of a
  network policy's from; nothing where everybody may.
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
  What every pod may ask: DNS, and what networkPolicy.extraEgress names. The egress of every policy begins with it. Some policies are
  judged by the port of the pod that answers, which is 5353 for DNS on OpenShift.
*/}}
{{- define "numoe.commonEgress" -}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}, {port: 5353, protocol: UDP}, {port: 5353, protocol: TCP}]
{{- with .Values.networkPolicy.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end -}}
