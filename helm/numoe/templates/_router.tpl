{{/* The router, and what lies behind it. */}}

{{/* The component that answers clients. */}}
{{- define "numoe.front" -}}{{ ternary "router" "host" .Values.router.enabled }}{{- end -}}

{{/*
  The name that has the addresses of all hosts: with the namespace where there are certificates, which have to have it and may
  be of an issuer that another namespace's release of this name shares.
*/}}
{{- define "numoe.hostsName" -}}
{{- printf "%s-hosts%s" (include "numoe.fullname" .) (ternary (printf ".%s.svc" .Release.Namespace) "" .Values.tls.enabled) -}}
{{- end -}}

{{/* Every coordinator of every host that the name has: one group for each of a host's coordinators. */}}
{{- define "numoe.backends" -}}
{{- $urls := list -}}
{{- range $i := until (include "numoe.coordinators" . | int) -}}
{{- $urls = append $urls (printf "dns+%s://%s:%s" (ternary "https" "http" $.Values.tls.enabled) (include "numoe.hostsName" $) (include "numoe.coordinatorPort" (dict "root" $ "place" $i))) -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}

{{/* Routers keep apart where they can: with requirements a new one might find no node beside the old ones. */}}
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
  Who may ask the coordinators where there is a router: it, and who scrapes their metrics, which are on the same port.
  Elements of a network policy's from.
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
