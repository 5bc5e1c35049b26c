{{/* The containers of servers. */}}

{{- define "numoe.listen" -}}
{{- if contains ":" .Values.listenHost }}[{{ .Values.listenHost }}]{{ else }}{{ .Values.listenHost }}{{ end -}}
{{- end -}}

{{/*
  Name of a remote worker's host, which its certificate has to have: with the namespace where there are certificates, since
  an issuer may be shared with another namespace's release of this name. Arguments: root, host (its number).
*/}}
{{- define "numoe.remoteHost" -}}
{{- $name := include "numoe.workersName" .root -}}
{{- printf "%s-%d.%s%s" $name (int .host) $name (ternary (printf ".%s.svc" .root.Release.Namespace) "" .root.Values.mtls.enabled) -}}
{{- end -}}

{{/* Addresses of all workers as the coordinator sees them, in the order of slices. */}}
{{- define "numoe.workerAddresses" -}}
{{- $addresses := list -}}
{{- range $i := until (int .Values.workers.count) -}}
{{- $addresses = append $addresses (printf "unix:/run/numoe/worker-%d.sock" $i) -}}
{{- end -}}
{{- range $host := until (include "numoe.remoteHosts" . | int) -}}
{{- range $i := until (int $.Values.remoteWorkers.workersPerHost) -}}
{{- $addresses = append $addresses (printf "%s:%d" (include "numoe.remoteHost" (dict "root" $ "host" $host)) (add (int $.Values.workers.port) $i)) -}}
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

{{/* Ready only while it serves its slice; alive as long as the process answers, also while it loads. */}}
{{- define "numoe.workerProbes" -}}
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
  grpc: {port: {{ .port }}, service: live}
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 6
{{- end -}}

{{/* Threads: what is pinned is the container's own; elsewhere workers share out what they see. Argument: root, resources. */}}
{{- define "numoe.workerThreads" -}}
{{- $workers := .root.Values.workers -}}
{{- if $workers.threads }}{{ $workers.threads }}
{{- else if and (eq .root.Values.pinning "required") (eq $workers.mode "containers") }}{{ div (include "numoe.milli" (default dict .resources.limits).cpu | int) 1000 }}
{{- else }}0{{ end -}}
{{- end -}}

{{/* Mutual TLS: flags of one end (argument: what stands before their names), mount, volume (argument: the Secret). */}}
{{- define "numoe.tlsFlags" -}}
- --{{ . }}ssl-certfile=/etc/numoe/mtls/tls.crt
- --{{ . }}ssl-keyfile=/etc/numoe/mtls/tls.key
- --{{ . }}ssl-ca-certs=/etc/numoe/mtls/ca.crt
{{- end -}}
{{- define "numoe.tlsMount" -}}
- {name: mtls, mountPath: /etc/numoe/mtls, readOnly: true}
{{- end -}}
{{- define "numoe.tlsVolume" -}}
- name: mtls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end -}}

{{/*
  One container of workers. Arguments: root, name, place (of its first worker on the host), workers (in it), resources (a
  map), env (a list), listen, arguments (lines), preStop (seconds until it is told to end), drain (seconds to end in), tls
  (whether it speaks TLS with the files of volume mtls).
*/}}
{{- define "numoe.workerContainer" -}}
{{- $root := .root -}}
{{- $workers := $root.Values.workers -}}
{{- $health := add (int $workers.healthPort) .place -}}
{{- $metrics := add (int $workers.metricsPort) .place -}}
- name: {{ .name }}
  image: {{ include "numoe.image" $root }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  command: [/bin/sh, /etc/numoe/scripts/start.sh, numoe-expert-worker]
  args:
    - '--model={{ ternary (include "numoe.packedPath" $root) (include "numoe.modelPath" $root) $root.Values.pack.enabled }}'
    - '--slice={{ include "numoe.slice" $root }}'
    - '--worker-count={{ include "numoe.workerTotal" $root }}'
    - '--listen={{ .listen }}'
    - '--health-listen={{ include "numoe.listen" $root }}:{{ $health }}'
    - '--metrics-host={{ $root.Values.listenHost }}'
    - '--metrics-port={{ $metrics }}'
    - '--format={{ $workers.format }}'
    - '--activations={{ $workers.activations }}'
    - '--packed={{ $workers.packed }}'
    {{- with $workers.hugepages }}
    - '--hugepages={{ . }}'
    {{- end }}
    {{- if $workers.shareExperts }}
    - --share-experts
    {{- end }}
    - '--threads={{ include "numoe.workerThreads" . }}'
    - '--drain-timeout-ms={{ mul .drain 1000 }}'
    - '--log-format=json'
    {{- if eq $root.Values.pinning "required" }}
    - '--pinning=required'
    - '--exclusive-cpus={{ div (include "numoe.milli" (default dict .resources.limits).cpu | int) 1000 }}'
    {{- end }}
    {{- with .arguments }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- if .tls }}
    {{- include "numoe.tlsFlags" "" | nindent 4 }}
    {{- end }}
    {{- include "numoe.flags" $workers.flags | nindent 4 }}
  {{- with concat (include "numoe.waitEnv" (dict "root" $root "packed" true) | fromYamlArray) .env $workers.extraEnv }}
  env:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - {name: {{ printf "health-w%d" .place }}, containerPort: {{ $health }}}
    {{- if not (hasPrefix "unix:" .listen) }}
    - {name: {{ printf "grpc-w%d" .place }}, containerPort: {{ add (int $workers.port) .place }}}
    {{- end }}
    {{- range $i := until (int .workers) }}
    - {name: {{ printf "metrics-w%d" (add $.place $i) }}, containerPort: {{ add $metrics $i }}}
    {{- end }}
  {{- include "numoe.workerProbes" (dict "root" $root "port" $health) | nindent 2 }}
  lifecycle:
    preStop:
      # As long as the coordinator's: its last requests need the worker.
      sleep: {seconds: {{ .preStop }}}
  resources:
    {{- include "numoe.workerLimits" . | nindent 4 }}
  securityContext:
    {{- include "numoe.containerSecurity" $root | nindent 4 }}
  volumeMounts:
    {{- include "numoe.serverMounts" $root | nindent 4 }}
    {{- if .tls }}
    {{- include "numoe.tlsMount" . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* The workers of a host with a coordinator: they meet at sockets in a volume of the pod. */}}
{{- define "numoe.localWorkers" -}}
{{- $c := .Values.coordinator -}}
{{- $common := dict "root" . "env" list "preStop" $c.preStopSeconds "drain" (add (int $c.drainSeconds) 5) -}}
{{- if and (eq .Values.workers.mode "supervised") (gt (int .Values.workers.count) 0) }}
{{ include "numoe.workerContainer" (merge (dict "name" "workers" "place" 0 "workers" .Values.workers.count "listen" "unix:/run/numoe"
  "arguments" (list "--supervise" (printf "--local-workers=%d" (int .Values.workers.count))) "resources" .Values.workers.resources) $common) }}
{{- else }}
{{- range $i := until (int .Values.workers.count) }}
{{ include "numoe.workerContainer" (merge (dict "name" (printf "worker-%d" $i) "place" $i "workers" 1 "listen" (printf "unix:/run/numoe/worker-%d.sock" $i)
  "arguments" (list (printf "--worker-index=%d" $i)) "resources" (include "numoe.workerResources" (dict "root" $ "index" $i) | fromYaml)) $common) }}
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
    - '--model={{ include "numoe.modelPath" . }}'
    - '--workers={{ include "numoe.workerAddresses" . }}'
    - '--host={{ .Values.listenHost }}'
    - '--port={{ $c.port }}'
    {{- with .Values.model.servedName }}
    - '--served-model-name={{ . }}'
    {{- end }}
    - '--drain-timeout-ms={{ mul (int $c.drainSeconds) 1000 }}'
    - '--worker-deadline-ms={{ mul (int $c.workerDeadlineSeconds) 1000 }}'
    - '--worker-start-timeout-ms=0'  # the startup probe is the limit; meanwhile its own flags and memory are checked
    - --log-format=json
    {{- if gt (int $c.gpu.count) 0 }}
    - --device=cuda
    {{- end }}
    {{- if .Values.apiKeys.secretName }}
    - --api-key-file=/etc/numoe/keys/{{ .Values.apiKeys.key }}
    {{- end }}
    {{- if .Values.tls.enabled }}
    - --ssl-certfile=/etc/numoe/tls/tls.crt
    - --ssl-keyfile=/etc/numoe/tls/tls.key
    {{- end }}
    {{- if .Values.mtls.enabled }}
    {{- include "numoe.tlsFlags" "worker-" | nindent 4 }}
    {{- end }}
    {{- include "numoe.flags" $c.flags | nindent 4 }}
  {{- with concat (include "numoe.waitEnv" (dict "root" . "packed" false) | fromYamlArray) $c.extraEnv }}
  env:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - {name: http, containerPort: {{ $c.port }}}
  # /health is 503 until the model is loaded and all workers serve, and says what it waits for. /live is 503 only where
  # the process itself does not move: a coordinator that waits for a worker must not be killed for it.
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
    httpGet: {path: /live, port: http, scheme: {{ $scheme }}}
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
    {{- if .Values.mtls.enabled }}
    {{- include "numoe.tlsMount" . | nindent 4 }}
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
