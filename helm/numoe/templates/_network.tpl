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

{{- define "numoe.dnsEgress" -}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{- end -}}
