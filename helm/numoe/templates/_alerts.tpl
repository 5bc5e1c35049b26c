{{/* Applies values to the alerts and dashboards in files/, which are complete without the chart. */}}

{{/*
  Seconds after which a start is overdue. It is a little less than the startup probes allow: these restart the server, and a server that
  has just been started is not overdue. It is never 0, because a query cannot look back by 0 seconds.
*/}}
{{- define "numoe.startBudgetSeconds" -}}
{{- max 60 (sub (include "numoe.startupSeconds" . | int) 120) -}}
{{- end -}}

{{/* The query with this release's labels added to each of its metrics. Arguments: root, query. */}}
{{- define "numoe.ownSeries" -}}
{{- $labels := printf "namespace=%q, release=%q" .root.Release.Namespace .root.Release.Name -}}
{{- $braced := regexReplaceAll "(numoe_[a-z_]+)[{]" .query (printf "${1}{%s, " $labels) -}}
{{- regexReplaceAll "(numoe_[a-z_]+)([^a-z_{]|$)" $braced (printf "${1}{%s}${2}" $labels) -}}
{{- end -}}

{{/* An alert after metrics.rules.alerts was applied to it; empty if it is switched off. Arguments: root, rule. */}}
{{- define "numoe.alert" -}}
{{- $rules := .root.Values.metrics.rules -}}
{{- $rule := deepCopy .rule -}}
{{- $own := default dict (get $rules.alerts $rule.alert) -}}
{{- if not (and (hasKey $own "enabled") (not $own.enabled)) -}}
{{- $threshold := "^((?s:.*?)[<>] )[0-9.]+" -}}
{{- if hasKey $own "threshold" -}}
{{- if not (regexMatch $threshold $rule.expr) }}{{ fail (printf "metrics.rules.alerts.%s.threshold is %v, but that alert does not compare with a number: %s. Leave the threshold out; for, labels, annotations and enabled can be changed" $rule.alert $own.threshold $rule.expr) }}{{ end -}}
{{- $_ := set $rule "expr" (regexReplaceAll $threshold $rule.expr (printf "${1}%v" $own.threshold)) -}}
{{- end -}}
{{- $budget := printf "%ss" (include "numoe.startBudgetSeconds" .root) -}}
{{- $_ := set $rule "expr" (regexReplaceAll "offset [0-9]+[a-z]+" $rule.expr (printf "offset %s" $budget)) -}}
{{- if eq $rule.alert "NumoeStartOverdue" }}{{ $_ := set $rule "for" $budget }}{{ end -}}
{{- /* Before the download of a first start the nodes pull images, which may take ten minutes. */ -}}
{{- if eq $rule.alert "NumoeNeverScraped" }}{{ $_ := set $rule "for" (printf "%ds" (add 600 (include "numoe.startBudgetSeconds" .root | int))) }}{{ end -}}
{{- with $own.for }}{{ $_ := set $rule "for" . }}{{ end -}}
{{- if eq $rules.scope "release" }}{{ $_ := set $rule "expr" (include "numoe.ownSeries" (dict "root" .root "query" $rule.expr)) }}{{ end -}}
{{- $_ := set $rule "labels" (merge dict (default dict $own.labels) $rules.alertLabels $rule.labels) -}}
{{- $runbook := dict -}}
{{- with $rules.runbookUrl }}{{ $_ := set $runbook "runbook_url" (printf "%s#%s" . (lower $rule.alert)) }}{{ end -}}
{{- $_ := set $rule "annotations" (merge dict (default dict $own.annotations) $runbook $rules.alertAnnotations $rule.annotations) -}}
{{- toYaml $rule -}}
{{- end -}}
{{- end -}}

{{/*
  A dashboard of this release. It has a uid of its own, because Grafana keeps only one dashboard for each uid, and preselects this
  release. Arguments: root, text.
*/}}
{{- define "numoe.dashboard" -}}
{{- $namespace := .root.Release.Namespace -}}
{{- $release := .root.Release.Name -}}
{{- $text := .text -}}
{{- range $name, $value := dict "namespace" $namespace "release" $release -}}
{{- $text = regexReplaceAll (printf "(\"name\": %q,\\s*\"current\": )[{][^}]*[}]" $name) $text (printf "${1}{\"text\": [%q], \"value\": [%q]}" $value $value) -}}
{{- end -}}
{{- $text = regexReplaceAll "(\"uid\": \"numoe)(\",\\s*\"title\": \"NUMoE)\"" $text (printf "${1}-%s${2} %s/%s\"" (printf "%s/%s" $namespace $release | sha256sum | trunc 16) $namespace $release) -}}
{{- $text -}}
{{- end -}}
