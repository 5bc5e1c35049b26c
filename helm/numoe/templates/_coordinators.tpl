{{/*
  The coordinators of a host: one for each of its GPUs, all with the same workers. Each is a container of its own, with its own
  port, probes and limits, so that one that hangs or runs out of memory is restarted alone.
*/}}

{{/* The number of coordinators in a host's pod. */}}
{{- define "numoe.coordinators" -}}{{ max 1 (int .Values.coordinator.gpu.count) }}{{- end -}}

{{/* The name, port name and port of a coordinator. Arguments: root, place (its number; 0 has the same name and port as a single one). */}}
{{- define "numoe.coordinatorName" -}}
{{- ternary "coordinator" (printf "coordinator-%d" (int .place)) (eq (int .place) 0) -}}
{{- end -}}
{{- define "numoe.coordinatorPortName" -}}
{{- ternary "http" (printf "http-%d" (int .place)) (eq (int .place) 0) -}}
{{- end -}}
{{- define "numoe.coordinatorPort" -}}
{{- $c := .root.Values.coordinator -}}
{{- ternary $c.port (add (int $c.gpu.nextPort) (int .place) -1) (eq (int .place) 0) -}}
{{- end -}}

{{/* The ports of all coordinators, for network policies. */}}
{{- define "numoe.coordinatorPorts" -}}
{{- range $i := until (include "numoe.coordinators" . | int) }}
- {port: {{ include "numoe.coordinatorPort" (dict "root" $ "place" $i) }}, protocol: TCP}
{{- end }}
{{- end -}}

{{/* The flags of one coordinator. Each gets a heat file of its own, because two that wrote to the same file would overwrite each other. Arguments: root, place. */}}
{{- define "numoe.coordinatorFlags" -}}
{{- $flags := deepCopy .root.Values.coordinator.flags -}}
{{- if .root.Values.coordinator.heat.enabled }}
{{- $_ := set $flags "expert-heat-file" "/var/lib/numoe/$(POD_NAME).heat" }}
{{- if not (hasKey $flags "num-gpu-experts") }}{{ $_ := set $flags "num-gpu-experts" "auto" }}{{ end -}}
{{- end -}}
{{- if and (gt (int .place) 0) (hasKey $flags "expert-heat-file") -}}
{{- $_ := set $flags "expert-heat-file" (printf "%s.%d" (get $flags "expert-heat-file") (int .place)) -}}
{{- end -}}
{{- toYaml $flags -}}
{{- end -}}

{{/*
  The coordinators after the first. They come after the workers: the kubelet assigns CPUs to containers in their order, and a socket
  that gave CPUs to two coordinators first would have too few for its worker.
*/}}
{{- define "numoe.furtherCoordinators" -}}
{{- range $i := untilStep 1 (include "numoe.coordinators" . | int) 1 }}
{{ include "numoe.coordinatorContainer" (dict "root" $ "place" $i) }}
{{- end }}
{{- end -}}

{{/* The container of one coordinator. Arguments: root, place (0 is the first). */}}
{{- define "numoe.coordinatorContainer" -}}
{{- $root := .root -}}
{{- $c := $root.Values.coordinator -}}
{{- $scheme := ternary "HTTPS" "HTTP" $root.Values.tls.enabled -}}
{{- $http := include "numoe.coordinatorPortName" . -}}
{{- with $root -}}
- name: {{ include "numoe.coordinatorName" $ }}
  image: {{ include "numoe.image" (dict "root" . "gpu" (include "numoe.gpuPod" .)) }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [/bin/sh, /etc/numoe/scripts/start.sh, numoe-coordinator]
  args:
    - {{ include "numoe.literal" (printf "--model=%s" (include "numoe.modelPath" .)) }}
    - '--workers={{ include "numoe.workerAddresses" . }}'
    - '--host={{ .Values.listenHost }}'
    - '--port={{ include "numoe.coordinatorPort" $ }}'
    {{- with .Values.model.servedName }}
    - {{ include "numoe.literal" (printf "--served-model-name=%s" .) }}
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
    {{- with .Values.apiKeys.adminKey }}
    - --admin-api-key-file=/etc/numoe/keys/{{ . }}
    {{- end }}
    {{- end }}
    {{- if .Values.tls.enabled }}
    - --ssl-certfile=/etc/numoe/tls/tls.crt
    - --ssl-keyfile=/etc/numoe/tls/tls.key
    {{- end }}
    {{- if .Values.mtls.enabled }}
    {{- include "numoe.tlsFlags" "worker-" | nindent 4 }}
    {{- end }}
    {{- with include "numoe.flags" (include "numoe.coordinatorFlags" $ | fromYaml) | trim }}
    {{- . | nindent 4 }}
    {{- end }}
  {{- with concat (include "numoe.waitEnv" (dict "root" . "packed" false) | fromYamlArray) (include "numoe.podNameEnv" . | fromYamlArray) $c.extraEnv }}
  env:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - {name: {{ $http }}, containerPort: {{ include "numoe.coordinatorPort" $ }}}
  # /health is 503 until the model is loaded and all workers serve, and says what it waits for. /live is 503 only if the
  # engine itself makes no progress: a coordinator that waits for a worker must not be killed for it.
  startupProbe:
    httpGet: {path: /health, port: {{ $http }}, scheme: {{ $scheme }}}
    {{- include "numoe.startupTiming" . | nindent 4 }}
  readinessProbe:
    httpGet: {path: /health, port: {{ $http }}, scheme: {{ $scheme }}}
    periodSeconds: 5
    timeoutSeconds: 5
    failureThreshold: 2
  livenessProbe:
    httpGet: {path: /live, port: {{ $http }}, scheme: {{ $scheme }}}
    {{- include "numoe.livenessTiming" . | nindent 4 }}
  lifecycle:
    preStop:
      sleep: {seconds: {{ $c.preStopSeconds }}}
  resources:
    {{- include "numoe.coordinatorResources" . | nindent 4 }}
  securityContext:
    {{- include "numoe.containerSecurity" . | nindent 4 }}
  volumeMounts:
    {{- include "numoe.serverMounts" . | trim | nindent 4 }}
    {{- if .Values.apiKeys.secretName }}
    - {name: keys, mountPath: /etc/numoe/keys, readOnly: true}
    {{- end }}
    {{- if .Values.tls.enabled }}
    - {name: tls, mountPath: /etc/numoe/tls, readOnly: true}
    {{- end }}
    {{- if .Values.mtls.enabled }}
    {{- include "numoe.tlsMount" . | nindent 4 }}
    {{- end }}
    {{- if $c.heat.enabled }}
    - {name: heat, mountPath: /var/lib/numoe}
    {{- end }}
{{- end -}}
{{- end -}}

{{/* The resources of a coordinator, including its GPU. */}}
{{- define "numoe.coordinatorResources" -}}
{{- $gpu := .Values.coordinator.gpu -}}
{{- $resources := deepCopy .Values.coordinator.resources -}}
{{- if gt (int $gpu.count) 0 -}}
{{- $_ := set $resources "limits" (set (default dict $resources.limits) $gpu.resource "1") -}}
{{- if $resources.requests }}{{ $_ := set $resources.requests $gpu.resource "1" }}{{ end -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* The pod template of a host, with its coordinators and its workers. */}}
{{- define "numoe.hostPod" -}}
metadata:
  labels:
    {{- include "numoe.podLabels" (dict "root" . "component" "host") | nindent 4 }}
  annotations:
    {{- merge (dict) .Values.podAnnotations (dict "kubectl.kubernetes.io/default-container" "coordinator") | toYaml | nindent 4 }}
spec:
  {{- include "numoe.podHead" . | nindent 2 }}
  {{- with .Values.coordinator.gpu.runtimeClassName }}
  runtimeClassName: {{ toYaml . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ include "numoe.graceSeconds" . }}
  {{- with include "numoe.placement" (dict "root" . "component" "host" "nodeSelector" .Values.nodeSelector "tolerations" .Values.tolerations "affinity" .Values.affinity "spread" true) | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    {{- include "numoe.coordinatorContainer" (dict "root" . "place" 0) | nindent 4 }}
    {{- with include "numoe.localWorkers" . | trim }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with include "numoe.furtherCoordinators" . | trim }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- range .Values.extraContainers }}
    {{- $security := dict "securityContext" (include "numoe.containerSecurity" $ | fromYaml) }}
    {{- list (merge (dict) . $security) | toYaml | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "numoe.serverVolumes" . | trim | nindent 4 }}
    {{- with .Values.apiKeys.secretName }}
    - name: keys
      secret: {secretName: {{ toYaml . }}, defaultMode: 0440}
    {{- end }}
    {{- if .Values.tls.enabled }}
    - name: tls
      secret: {secretName: {{ include "numoe.tlsSecretName" . | toYaml }}, defaultMode: 0440}
    {{- end }}
    {{- if .Values.mtls.enabled }}
    {{- include "numoe.tlsVolume" (include "numoe.coordinatorTlsSecretName" .) | nindent 4 }}
    {{- end }}
    {{- if .Values.coordinator.heat.enabled }}
    - name: heat
      persistentVolumeClaim: {claimName: {{ include "numoe.heatName" . | toYaml }}}
    {{- end }}
{{- end -}}
