{{/* The containers of servers. */}}

{{- define "numoe.listen" -}}
{{- if contains ":" .Values.listenHost }}[{{ .Values.listenHost }}]{{ else }}{{ .Values.listenHost }}{{ end -}}
{{- end -}}

{{/* Addresses of all workers as the coordinator sees them, in the order of slices. */}}
{{- define "numoe.workerAddresses" -}}
{{- $addresses := list -}}
{{- $loopback := ternary "[::1]" "127.0.0.1" (contains ":" .Values.listenHost) -}}
{{- range $i := until (int .Values.workers.count) -}}
{{- $addresses = append $addresses (printf "%s:%d" $loopback (add (int $.Values.workers.port) $i)) -}}
{{- end -}}
{{- $name := include "numoe.workersName" . -}}
{{- range $host := until (include "numoe.remoteHosts" . | int) -}}
{{- range $i := until (int $.Values.remoteWorkers.workersPerHost) -}}
{{- $addresses = append $addresses (printf "%s-%d.%s:%d" $name $host $name (add (int $.Values.workers.port) $i)) -}}
{{- end -}}
{{- end -}}
{{- join "," $addresses -}}
{{- end -}}

{{/* Resources of a worker of the hosts. Arguments: root, index. */}}
{{- define "numoe.workerResources" -}}
{{- $workers := .root.Values.workers -}}
{{- $own := dict -}}
{{- if gt (len $workers.overrides) .index }}{{ $own = index $workers.overrides .index }}{{ end -}}
{{- toYaml (default $workers.resources $own.resources) -}}
{{- end -}}

{{- define "numoe.grpcProbes" -}}
startupProbe:
  grpc: {port: {{ .port }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: {{ include "numoe.startupPeriods" .root }}
readinessProbe:
  grpc: {port: {{ .port }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
livenessProbe:
  grpc: {port: {{ .port }}}
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 6
{{- end -}}

{{/* Threads: what is pinned is the container's own; elsewhere workers share out what they see. Argument: root, resources. */}}
{{- define "numoe.workerThreads" -}}
{{- $workers := .root.Values.workers -}}
{{- if $workers.threads }}{{ $workers.threads }}
{{- else if and (eq .root.Values.pinning "required") (eq $workers.mode "containers") }}{{ div (include "numoe.milli" .resources.limits.cpu | int) 1000 }}
{{- else }}0{{ end -}}
{{- end -}}

{{/* One worker. Arguments: root, name, place (on its host), resources (a map), env (a list), leave (whether a coordinator is beside it). */}}
{{- define "numoe.workerContainer" -}}
{{- $root := .root -}}
{{- $workers := $root.Values.workers -}}
{{- $port := add (int $workers.port) .place -}}
{{- $metrics := add (int $workers.metricsPort) .place -}}
- name: {{ .name }}
  image: {{ include "numoe.image" $root }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  command: [/bin/sh, /etc/numoe/scripts/start.sh, numoe-expert-worker]
  args:
    - --model={{ ternary (include "numoe.packedPath" $root) (include "numoe.modelPath" $root) $root.Values.pack.enabled }}
    - --slice={{ include "numoe.slice" $root }}
    - --worker-count={{ include "numoe.workerTotal" $root }}
    - --listen={{ include "numoe.listen" $root }}:{{ $port }}
    - --metrics-host={{ $root.Values.listenHost }}
    - --metrics-port={{ $metrics }}
    - --format={{ $workers.format }}
    - --activations={{ $workers.activations }}
    - --packed={{ $workers.packed }}
    - --threads={{ include "numoe.workerThreads" . }}
    - --log-format=json
    {{- .arguments | nindent 4 }}
    {{- include "numoe.flags" $workers.flags | nindent 4 }}
  {{- with concat (include "numoe.waitEnv" (dict "root" $root "packed" true) | fromYamlArray) .env $workers.extraEnv }}
  env:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - {name: {{ printf "grpc-w%d" .place }}, containerPort: {{ $port }}}
    - {name: {{ printf "metrics-w%d" .place }}, containerPort: {{ $metrics }}}
  {{- include "numoe.grpcProbes" (dict "root" $root "port" $port) | nindent 2 }}
  {{- if .leave }}
  # All containers are told to end at once; the coordinator's requests still need the workers.
  lifecycle:
    preStop:
      exec:
        command: [/bin/bash, /etc/numoe/scripts/leave.sh, {{ $root.Values.coordinator.port | quote }}, {{ sub (include "numoe.graceSeconds" $root | int) 10 | quote }}]
  {{- end }}
  resources:
    {{- toYaml .resources | nindent 4 }}
  securityContext:
    {{- include "numoe.containerSecurity" $root | nindent 4 }}
  volumeMounts:
    {{- include "numoe.serverMounts" $root | nindent 4 }}
{{- end -}}

{{/* The workers of a host with a coordinator. */}}
{{- define "numoe.localWorkers" -}}
{{- if and (eq .Values.workers.mode "supervised") (gt (int .Values.workers.count) 0) }}
{{ include "numoe.supervisedContainer" . }}
{{- else }}
{{- range $i := until (int .Values.workers.count) }}
{{ include "numoe.workerContainer" (dict "root" $ "name" (printf "worker-%d" $i) "place" $i "leave" true "env" list
  "arguments" (printf "- --worker-index=%d" $i)
  "resources" (include "numoe.workerResources" (dict "root" $ "index" $i) | fromYaml)) }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "numoe.coordinatorContainer" -}}
{{- $c := .Values.coordinator -}}
{{- $scheme := ternary "HTTPS" "HTTP" .Values.tls.enabled -}}
- name: coordinator
  image: {{ include "numoe.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [/bin/sh, /etc/numoe/scripts/start.sh, numoe-coordinator]
  args:
    - --model={{ include "numoe.modelPath" . }}
    - --workers={{ include "numoe.workerAddresses" . }}
    - --host={{ .Values.listenHost }}
    - --port={{ $c.port }}
    {{- with .Values.model.servedName }}
    - --served-model-name={{ . }}
    {{- end }}
    - --drain-timeout-ms={{ mul (int $c.drainSeconds) 1000 }}
    - --worker-deadline-ms={{ mul (int $c.workerDeadlineSeconds) 1000 }}
    - --log-format=json
    {{- if .Values.apiKeys.secretName }}
    - --api-key-file=/etc/numoe/keys/{{ .Values.apiKeys.key }}
    {{- end }}
    {{- if .Values.tls.enabled }}
    - --ssl-certfile=/etc/numoe/tls/tls.crt
    - --ssl-keyfile=/etc/numoe/tls/tls.key
    {{- end }}
    {{- include "numoe.flags" $c.flags | nindent 4 }}
  {{- with concat (include "numoe.waitEnv" (dict "root" . "packed" false) | fromYamlArray) $c.extraEnv }}
  env:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - {name: http, containerPort: {{ $c.port }}}
  # /health is 503 until the model is loaded and all workers serve, and says what it waits for. /version only shows that
  # the server answers: a coordinator that waits for a worker must not be killed for it.
  startupProbe:
    httpGet: {path: /health, port: http, scheme: {{ $scheme }}}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: {{ include "numoe.startupPeriods" . }}
  readinessProbe:
    httpGet: {path: /health, port: http, scheme: {{ $scheme }}}
    periodSeconds: 5
    timeoutSeconds: 5
    failureThreshold: 2
  livenessProbe:
    httpGet: {path: /version, port: http, scheme: {{ $scheme }}}
    periodSeconds: 10
    timeoutSeconds: 10
    failureThreshold: 6
  lifecycle:
    preStop:
      sleep: {seconds: {{ $c.preStopSeconds }}}
  resources:
    {{- include "numoe.coordinatorResources" . | nindent 4 }}
  securityContext:
    {{- include "numoe.containerSecurity" . | nindent 4 }}
  volumeMounts:
    {{- include "numoe.serverMounts" . | nindent 4 }}
    {{- if .Values.apiKeys.secretName }}
    - {name: keys, mountPath: /etc/numoe/keys, readOnly: true}
    {{- end }}
    {{- if .Values.tls.enabled }}
    - {name: tls, mountPath: /etc/numoe/tls, readOnly: true}
    {{- end }}
{{- end -}}

{{/* The coordinator's resources, with its GPUs. */}}
{{- define "numoe.coordinatorResources" -}}
{{- $gpu := .Values.coordinator.gpu -}}
{{- $resources := deepCopy .Values.coordinator.resources -}}
{{- if gt (int $gpu.count) 0 -}}
{{- $_ := set $resources "limits" (set (default dict $resources.limits) $gpu.resource (toString $gpu.count)) -}}
{{- if $resources.requests }}{{ $_ := set $resources.requests $gpu.resource (toString $gpu.count) }}{{ end -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* One container that starts a worker for each NUMA node; its ports count up from the first worker's. */}}
{{- define "numoe.supervisedContainer" -}}
{{ include "numoe.workerContainer" (dict "root" . "name" "workers" "place" 0 "leave" true "env" list
  "arguments" (printf "- --supervise\n- --local-workers=%d" (int .Values.workers.count))
  "resources" .Values.workers.resources) }}
{{- end -}}
