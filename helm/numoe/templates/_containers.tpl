{{/* The containers of the expert workers, and what all servers' containers have in common. */}}

{{- define "numoe.listen" -}}
{{- if contains ":" .Values.listenHost }}[{{ .Values.listenHost }}]{{ else }}{{ .Values.listenHost }}{{ end -}}
{{- end -}}

{{/* The addresses of all workers for the coordinator, in the order of their slices. */}}
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

{{/* The resources of one worker of a host. Arguments: root, index. */}}
{{- define "numoe.workerResources" -}}
{{- $workers := .root.Values.workers -}}
{{- $own := dict -}}
{{- if gt (len $workers.overrides) .index }}{{ $own = index $workers.overrides .index }}{{ end -}}
{{- toYaml (default $workers.resources $own.resources) -}}
{{- end -}}

{{/*
  Timing of startup probes. The period is short, because a server that restarts within seconds serves only after the next probe.
  The time for all probes together is that of a whole start (numoe.startupSeconds), whatever the period. Argument: root.
*/}}
{{- define "numoe.startupTiming" -}}
{{- $period := 2 -}}
periodSeconds: {{ $period }}
timeoutSeconds: 5
failureThreshold: {{ div (include "numoe.startupSeconds" . | int) $period }}
{{- end -}}

{{/*
  Timing of liveness probes. A server that does not answer for a minute is ended, without the pod's whole grace period: that is for
  requests that finish, and a process that hangs finishes none.
*/}}
{{- define "numoe.livenessTiming" -}}
periodSeconds: 10
timeoutSeconds: 10
failureThreshold: 6
terminationGracePeriodSeconds: 5
{{- end -}}

{{/* A worker is ready only while it serves its slice, and alive as long as the process answers, also while it loads. Arguments: root, port. */}}
{{- define "numoe.workerProbes" -}}
startupProbe:
  grpc: {port: {{ .port }}}
  {{- include "numoe.startupTiming" .root | nindent 2 }}
readinessProbe:
  grpc: {port: {{ .port }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
livenessProbe:
  grpc: {port: {{ .port }}, service: live}
  {{- include "numoe.livenessTiming" . | nindent 2 }}
{{- end -}}

{{/* Mutual TLS: the flags of one end (argument: the prefix of their names), the mount, and the volume (argument: the Secret). */}}
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
  secret: {secretName: {{ toYaml . }}, defaultMode: 0440}
{{- end -}}

{{/*
  A container of one or several workers. Arguments: root, name, place (the number of its first worker on the host), workers (how many it has),
  resources (a map), env (a list), gpu (whether the pod has GPUs), listen (the address), arguments (a list), preStop (seconds before SIGTERM),
  drain (seconds to end after it), tls (whether it uses TLS with the files of the volume mtls).
*/}}
{{- define "numoe.workerContainer" -}}
{{- $root := .root -}}
{{- $workers := $root.Values.workers -}}
{{- $health := add (int $workers.healthPort) .place -}}
{{- $metrics := add (int $workers.metricsPort) .place -}}
- name: {{ .name }}
  image: {{ include "numoe.image" (dict "root" $root "gpu" .gpu) }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  command: [/bin/sh, /etc/numoe/scripts/start.sh, numoe-expert-worker]
  args:
    - {{ include "numoe.literal" (printf "--model=%s" (ternary (include "numoe.packedPath" $root) (include "numoe.modelPath" $root) $root.Values.pack.enabled)) }}
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
    - '--threads={{ $workers.threads }}'
    - '--drain-timeout-ms={{ mul .drain 1000 }}'
    - '--log-format=json'
    {{- if eq $root.Values.pinning "required" }}
    - '--pinning=required'
    {{- end }}
    {{- with include "numoe.wholeCpus" (dict "resources" .resources "all" (eq $root.Values.pinning "required") "workers" .workers) }}
    - '--exclusive-cpus={{ . }}'
    {{- end }}
    {{- with .arguments }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- if .tls }}
    {{- include "numoe.tlsFlags" "" | nindent 4 }}
    {{- end }}
    {{- with include "numoe.flags" $workers.flags | trim }}
    {{- . | nindent 4 }}
    {{- end }}
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
      # As long as the coordinator's sleep, because the coordinator's last requests need the worker.
      sleep: {seconds: {{ .preStop }}}
  resources:
    {{- include "numoe.workerLimits" . | nindent 4 }}
  securityContext:
    {{- include "numoe.containerSecurity" $root | nindent 4 }}
  volumeMounts:
    {{- include "numoe.serverMounts" $root | trim | nindent 4 }}
    {{- if .tls }}
    {{- include "numoe.tlsMount" . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* The workers of a host with a coordinator, which listen at sockets in a volume of the pod. */}}
{{- define "numoe.localWorkers" -}}
{{- $c := .Values.coordinator -}}
{{- $common := dict "root" . "env" list "gpu" (include "numoe.gpuPod" .) "preStop" $c.preStopSeconds "drain" (add (int $c.drainSeconds) 5) -}}
{{- if and (eq .Values.workers.mode "supervised") (gt (int .Values.workers.count) 0) }}
{{ include "numoe.workerContainer" (merge (dict "name" "workers" "place" 0 "workers" .Values.workers.count "listen" "unix:/run/numoe"
  "arguments" (list "--supervise" (printf "--local-workers=%d" (int .Values.workers.count))) "resources" .Values.workers.resources) $common) }}
{{- else }}
{{- range $i := until (int .Values.workers.count) }}
{{ include "numoe.workerContainer" (merge (dict "name" (printf "worker-%d" $i) "place" $i "workers" 1 "listen" (printf "unix:/run/numoe/worker-%d.sock" $i)
  "arguments" (list (printf "--worker-index=%d" $i) (printf "--local-workers=%d" (int $.Values.workers.count))) "resources" (include "numoe.workerResources" (dict "root" $ "index" $i) | fromYaml)) $common) }}
{{- end }}
{{- end }}
{{- end -}}
