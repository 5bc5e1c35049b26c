{{/* The router, and the coordinators behind the router. */}}

{{/* The component that clients call. */}}
{{- define "numoe.front" -}}{{ ternary "router" "host" .Values.router.enabled }}{{- end -}}

{{/*
  The name that resolves to the addresses of all hosts. With TLS it contains the namespace, because the certificate must contain this name,
  and another namespace's release of the same name may share the issuer.
*/}}
{{- define "numoe.hostsName" -}}
{{- printf "%s-hosts%s" (include "numoe.fullname" .) (ternary (printf ".%s.svc" .Release.Namespace) "" .Values.tls.enabled) -}}
{{- end -}}

{{/* The router's backends: for each of a host's coordinators one URL, which stands for that coordinator of every host. */}}
{{- define "numoe.backends" -}}
{{- $urls := list -}}
{{- range $i := until (include "numoe.coordinators" . | int) -}}
{{- $urls = append $urls (printf "dns+%s://%s:%s" (ternary "https" "http" $.Values.tls.enabled) (include "numoe.hostsName" $) (include "numoe.coordinatorPort" (dict "root" $ "place" $i))) -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}

{{/* Routers prefer different nodes. If that were required, a new router might find no node while the old ones run. */}}
{{- define "numoe.routerAffinity" -}}
{{- $affinity := deepCopy .Values.router.affinity -}}
{{- if and (not (hasKey $affinity "podAntiAffinity")) (gt (int .Values.router.replicas) 1) (ne .Values.podAntiAffinity "none") -}}
{{- $labels := include "numoe.selector" (dict "root" . "component" "router") | fromYaml -}}
{{- $apart := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" $labels) -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $apart))) -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}

{{/*
  The clients that may call the coordinators if there is a router: the router, and those that scrape the metrics, which are on the same
  port. Renders elements of a network policy's from.
*/}}
{{- define "numoe.coordinatorsFrom" -}}
{{- $p := .Values.networkPolicy -}}
- podSelector:
    matchLabels:
      {{- include "numoe.selector" (dict "root" . "component" "router") | nindent 6 }}
{{- if $p.metricsFrom }}
{{ toYaml $p.metricsFrom }}
{{- else if .Values.metrics.monitors.enabled }}
{{ default (list (dict "namespaceSelector" dict)) $p.apiFrom | toYaml }}
{{- end }}
{{- end -}}
