{{/*
  Workers on further hosts. Every slice is needed, so replacing the hosts one after the other would interrupt the service once for each of
  them. Therefore each host is a StatefulSet of one pod, and all are replaced at once. Alternatively a LeaderWorkerSet makes groups of a
  coordinator's pod and its workers' pods, which are replaced a group at a time.
*/}}

{{/* "true" if coordinators and remote workers are groups of a LeaderWorkerSet, otherwise empty. */}}
{{- define "numoe.grouped" -}}
{{- if and .Values.remoteWorkers.enabled .Values.remoteWorkers.leaderWorkerSet.enabled }}true{{ end -}}
{{- end -}}

{{/* The name of the LeaderWorkerSet, and of the Service that its controller makes for the names of its pods. */}}
{{- define "numoe.groupName" -}}{{ include "numoe.fullname" . }}-group{{- end -}}

{{/* The object that is scaled. */}}
{{- define "numoe.scaleTarget" -}}
{{- if include "numoe.grouped" . -}}
{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: {{ include "numoe.groupName" . | toYaml }}}
{{- else -}}
{apiVersion: apps/v1, kind: StatefulSet, name: {{ include "numoe.fullname" . | toYaml }}}
{{- end -}}
{{- end -}}

{{/* With certificates, names contain the namespace, because another namespace's release of the same name may share the issuer. */}}
{{- define "numoe.namespaceSuffix" -}}{{ ternary (printf ".%s.svc" .Release.Namespace) "" .Values.mtls.enabled }}{{- end -}}

{{/*
  The name by which a coordinator calls a remote worker's host. In a group it follows from the name of the coordinator's own pod.
  Arguments: root, host (its number).
*/}}
{{- define "numoe.remoteHost" -}}
{{- if include "numoe.grouped" .root -}}
{{- printf "$(POD_NAME)-%d.%s%s" (add (int .host) 1) (include "numoe.groupName" .root) (include "numoe.namespaceSuffix" .root) -}}
{{- else -}}
{{- $name := include "numoe.workersName" .root -}}
{{- printf "%s-%d-0.%s%s" $name (int .host) $name (include "numoe.namespaceSuffix" .root) -}}
{{- end -}}
{{- end -}}

{{/* All these names, one in each line, for certificates. */}}
{{- define "numoe.remoteNames" -}}
{{- $groups := ternary .Values.autoscaling.maxReplicas .Values.replicas .Values.autoscaling.enabled | int -}}
{{- range $group := until (ternary $groups 1 (ne (include "numoe.grouped" .) "")) }}
{{- range $host := until (include "numoe.remoteHosts" $ | int) }}
{{ include "numoe.remoteHost" (dict "root" $ "host" $host) | replace "$(POD_NAME)" (printf "%s-%d" (include "numoe.groupName" $) $group) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The pod's name as a variable, if something depends on it: its workers' names in a group, or its heat file. */}}
{{- define "numoe.podNameEnv" -}}
{{- if or (include "numoe.grouped" .) .Values.coordinator.heat.enabled }}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
{{- end }}
{{- end -}}

{{/*
  The pod template of a host of remote workers. Its workers get SIGTERM when the coordinators do, and serve for longer than these.
  Arguments: root, host (its number; left out in a group, where the pod's name contains it).
*/}}
{{- define "numoe.remotePod" -}}
{{- $root := .root -}}
{{- $remote := $root.Values.remoteWorkers -}}
{{- $c := $root.Values.coordinator -}}
{{- $grouped := include "numoe.grouped" $root -}}
{{- $step := int $remote.workersPerHost -}}
{{- $host := default 0 .host | int -}}
metadata:
  labels:
    {{- include "numoe.podLabels" (dict "root" $root "component" "remote-worker") | nindent 4 }}
  {{- with $root.Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- include "numoe.podHead" $root | nindent 2 }}
  terminationGracePeriodSeconds: {{ include "numoe.graceSeconds" $root }}
  {{- with include "numoe.placement" (dict "root" $root "component" "remote-worker" "nodeSelector" $remote.nodeSelector "tolerations" $remote.tolerations "affinity" $remote.affinity "spread" true) | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  containers:
    {{- range $i := until $step }}
    {{- $first := add (int $root.Values.workers.count) $i -}}
    {{- $arguments := list (printf "--local-workers=%d" $step) -}}
    {{- $env := list -}}
    {{- if $grouped -}}
    {{- $env = list (dict "name" "INDEX_BASE" "value" (toString $first)) (dict "name" "INDEX_STEP" "value" (toString $step)) -}}
    {{- else -}}
    {{- $arguments = prepend $arguments (printf "--worker-index=%d" (add $first (mul $host $step))) -}}
    {{- end -}}
    {{- include "numoe.workerContainer" (dict "root" $root "name" (printf "worker-%d" $i) "place" $i "workers" 1 "gpu" false "env" $env "resources" $remote.resources
      "listen" (printf "%s:%d" (include "numoe.listen" $root) (add (int $root.Values.workers.port) $i)) "arguments" $arguments
      "preStop" $c.preStopSeconds "drain" (add (int $c.drainSeconds) 5) "tls" $root.Values.mtls.enabled) | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "numoe.serverVolumes" $root | trim | nindent 4 }}
    {{- if $root.Values.mtls.enabled }}
    {{- include "numoe.tlsVolume" (include "numoe.workerTlsSecretName" $root) | nindent 4 }}
    {{- end }}
{{- end -}}
