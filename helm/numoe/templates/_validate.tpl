{{/* Values that cannot work are refused before anything is installed. Every message names the value, what was found and what to do. */}}

{{- define "numoe.validate" -}}
{{- include "numoe.validateTexts" . -}}
{{- include "numoe.validateLabels" . -}}
{{- include "numoe.validateNamed" . -}}
{{- include "numoe.validateAllAmounts" . -}}
{{- include "numoe.validateService" . -}}
{{- include "numoe.validateHeat" . -}}
{{- include "numoe.validateImage" . -}}
{{- include "numoe.validateModel" . -}}
{{- include "numoe.validateStorage" . -}}
{{- include "numoe.validateWorkers" . -}}
{{- include "numoe.validateResources" . -}}
{{- include "numoe.validateFlags" . -}}
{{- include "numoe.validateSharedExperts" . -}}
{{- include "numoe.validateAccess" . -}}
{{- include "numoe.validateMtls" . -}}
{{- include "numoe.validateGpus" . -}}
{{- include "numoe.validateRouter" . -}}
{{- include "numoe.validateGateway" . -}}
{{- end -}}

{{- define "numoe.validateImage" -}}
{{- $image := .Values.image -}}
{{- if and $image.digest (include "numoe.gpuPod" .) (not $image.cuda.digest) }}{{ fail "image.digest is set, but coordinator.gpu.count is not 0 and image.cuda.digest is empty: pods with GPUs have an image of their own; give its digest in image.cuda.digest, or the same one where one image is for all pods" }}{{ end -}}
{{- end -}}

{{- define "numoe.validateModel" -}}
{{- $m := .Values.model -}}
{{- if not (or $m.directory $m.repository) }}{{ fail "model.directory is empty: name the model's directory in the weights volume, or set model.repository (ORG/NAME) and download.enabled: true" }}{{ end -}}
{{- if .Values.download.enabled -}}
{{- if not (regexMatch "^[^/ ]+/[^/ ]+$" $m.repository) }}{{ fail (printf "download.enabled, but model.repository is %q: expected ORG/NAME, as in moonshotai/Kimi-K2-Thinking" $m.repository) }}{{ end -}}
{{- if not $m.revision }}{{ fail "download.enabled, but model.revision is empty: give the commit of the repository (40 digits), so that every start has the same weights" }}{{ end -}}
{{- if not $m.sizeGiB }}{{ fail "download.enabled, but model.sizeGiB is 0: give the size of the published files; the volume's size and the time a start may take follow from it" }}{{ end -}}
{{- if hasPrefix "/" $m.directory }}{{ fail (printf "download.enabled, but model.directory is %s: give a directory relative to the weights volume, or leave it empty" $m.directory) }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "numoe.hostsMany" -}}
{{- if or (gt (int .Values.replicas) 1) .Values.autoscaling.enabled .Values.remoteWorkers.enabled }}true{{ end -}}
{{- end -}}

{{- define "numoe.validateStorage" -}}
{{- $p := .Values.persistence -}}
{{- $fills := or .Values.download.enabled .Values.pack.enabled -}}
{{- if and $p.existingClaim (ne $p.mode "existing") }}{{ fail (printf "persistence.existingClaim is %s, but persistence.mode is %s, which does not use it: set persistence.mode: existing, or leave the claim out" $p.existingClaim $p.mode) }}{{ end -}}
{{- if and $p.hostPath (ne $p.mode "hostPath") }}{{ fail (printf "persistence.hostPath is %s, but persistence.mode is %s, which does not use it: set persistence.mode: hostPath, or leave the path out" $p.hostPath $p.mode) }}{{ end -}}
{{- if eq $p.mode "none" -}}
{{- if $fills }}{{ fail "persistence.mode is none, but download.enabled or pack.enabled needs a volume to write to: use create, existing or hostPath" }}{{ end -}}
{{- if not (hasPrefix "/" .Values.model.directory) }}{{ fail (printf "persistence.mode is none, so model.directory must be an absolute path in the image; found %q" .Values.model.directory) }}{{ end -}}
{{- else if eq $p.mode "existing" -}}
{{- if not $p.existingClaim }}{{ fail "persistence.mode is existing, but persistence.existingClaim is empty: name the claim, or use create" }}{{ end -}}
{{- else if eq $p.mode "hostPath" -}}
{{- if not (hasPrefix "/" $p.hostPath) }}{{ fail (printf "persistence.mode is hostPath, so persistence.hostPath must be an absolute path of the node; found %q" $p.hostPath) }}{{ end -}}
{{- if and $fills (include "numoe.hostsMany" .) }}{{ fail "persistence.mode is hostPath on several hosts, but download.enabled or pack.enabled fills one host's directory: put the weights on every host beforehand, or use a shared claim" }}{{ end -}}
{{- end -}}
{{- if and (ne $p.mode "none") (not .Values.model.sizeGiB) }}{{ fail (printf "persistence.mode is %s, but model.sizeGiB is 0: give the size of the model's files; the time a start may take, what memory workers need and the size of a new volume follow from it" $p.mode) }}{{ end -}}
{{- if eq $p.mode "create" -}}
{{- if and $p.size (lt (include "numoe.mib" $p.size | int) (mulf .Values.model.sizeGiB 1024 | int)) }}{{ fail (printf "persistence.size is %s, less than the %v GiB of model.sizeGiB: leave it empty, which computes it, or give more" $p.size .Values.model.sizeGiB) }}{{ end -}}
{{- $writesMany := has "ReadWriteMany" $p.accessModes -}}
{{- if and (include "numoe.hostsMany" .) (not $writesMany) (not (has "ReadOnlyMany" $p.accessModes)) }}{{ fail (printf "several hosts read the weights, but persistence.accessModes is %v: use [ReadWriteMany], or a filled claim with [ReadOnlyMany]" $p.accessModes) }}{{ end -}}
{{- if has "ReadWriteOncePod" $p.accessModes }}{{ fail "persistence.accessModes has ReadWriteOncePod: the servers and the Jobs that fill the volume are several pods; use ReadWriteOnce or ReadWriteMany" }}{{ end -}}
{{- if and $fills (not $writesMany) (not (has "ReadWriteOnce" $p.accessModes)) }}{{ fail (printf "download.enabled or pack.enabled writes to the weights, but persistence.accessModes is %v: add ReadWriteMany or ReadWriteOnce" $p.accessModes) }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "numoe.validateWorkers" -}}
{{- $w := .Values.workers -}}
{{- $total := include "numoe.workerTotal" . | int -}}
{{- if eq $total 0 }}{{ fail "workers.count is 0 and remoteWorkers.enabled is false: nobody would hold the experts; set workers.count to the host's sockets" }}{{ end -}}
{{- if gt $total 64 }}{{ fail (printf "%d workers in all (workers.count + remoteWorkers.replicas x workersPerHost), at most 64" $total) }}{{ end -}}
{{- if and .Values.remoteWorkers.leaderWorkerSet.enabled (not .Values.remoteWorkers.enabled) }}{{ fail "remoteWorkers.leaderWorkerSet.enabled, but remoteWorkers.enabled is false, so there are no hosts to make groups of: set both, or neither" }}{{ end -}}
{{- if gt (len $w.overrides) (int $w.count) }}{{ fail (printf "workers.overrides has %d entries for workers.count %d" (len $w.overrides) (int $w.count)) }}{{ end -}}
{{- if and $w.overrides (eq $w.mode "supervised") }}{{ fail "workers.overrides is for workers.mode containers: a supervised host has one container, with workers.resources" }}{{ end -}}
{{- $most := max (int $w.count) (int .Values.remoteWorkers.workersPerHost) -}}
{{- $ports := dict -}}
{{- range $what, $port := dict "workers.port" (int $w.port) "workers.healthPort" (int $w.healthPort) "workers.metricsPort" (int $w.metricsPort) -}}
{{- range $i := until (int $most) -}}
{{- $number := toString (add $port $i) -}}
{{- if gt (int $number) 65535 }}{{ fail (printf "%s: port %s of worker %d is above 65535; workers count up, so begin %d lower" $what $number $i $most) }}{{ end -}}
{{- if hasKey $ports $number }}{{ fail (printf "%s: port %s of worker %d is already %s's; workers count up from workers.port, healthPort and metricsPort, so keep these %d apart" $what $number $i (get $ports $number) $most) }}{{ end -}}
{{- $_ := set $ports $number $what -}}
{{- end -}}
{{- end -}}
{{- range $i := until (include "numoe.coordinators" . | int) -}}
{{- $what := ternary "coordinator.port" "coordinator.gpu.nextPort" (eq $i 0) -}}
{{- $number := include "numoe.coordinatorPort" (dict "root" $ "place" $i) -}}
{{- if gt (int $number) 65535 }}{{ fail (printf "%s counts up to %s, which is above 65535: begin lower" $what $number) }}{{ end -}}
{{- if hasKey $ports $number }}{{ fail (printf "%s %s is a port of %s: choose another" $what $number (get $ports $number)) }}{{ end -}}
{{- $_ := set $ports $number $what -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) }}{{ fail (printf "autoscaling.minReplicas %d is more than maxReplicas %d" (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) }}{{ end -}}
{{- end -}}

{{/* Checks that a container can be pinned. Arguments: name, resources, whole (whether it needs whole CPUs). */}}
{{- define "numoe.validateGuaranteed" -}}
{{- $name := .name -}}
{{- $limits := default dict .resources.limits -}}
{{- $requests := default $limits .resources.requests -}}
{{- range $what := list "cpu" "memory" -}}
{{- $limit := get $limits $what | toString -}}
{{- $request := default $limit (get $requests $what | toString) -}}
{{- if not $limit }}{{ fail (printf "pinning: required, but %s.limits.%s is not set: the kubelet pins only pods whose containers all have limits equal to their requests; set it, or pinning: none" $name $what) }}{{ end -}}
{{- if ne $limit $request }}{{ fail (printf "pinning: required, but %s asks for %s %s with a limit of %s: make them equal, or set pinning: none" $name $what $request $limit) }}{{ end -}}
{{- end -}}
{{- if and .whole (ne (mod (include "numoe.milli" $limits.cpu | int) 1000) 0) }}{{ fail (printf "pinning: required, but %s.limits.cpu is %v: the static CPU manager gives whole CPUs alone; use an integer" $name $limits.cpu) }}{{ end -}}
{{- end -}}

{{/* Checks the memory of a container of workers. Arguments: root, name, resources, slices (that the container holds). */}}
{{- define "numoe.validateMemory" -}}
{{- $limit := get (default dict .resources.limits) "memory" -}}
{{- $have := default (get (default dict .resources.requests) "memory") $limit -}}
{{- $needs := mul (include "numoe.workerMiB" .root | int) .slices -}}
{{- if and $have (or .root.Values.model.sizeGiB .root.Values.model.expertsGiB) -}}
{{- if lt (include "numoe.mib" $have | int) (int $needs) }}{{ fail (printf "%s has %v of memory, but needs %dMi: %sthe shared-memory mailbox of each coordinator and 1 GiB; give it more, or use more workers" .name $have $needs (ternary "" (printf "its share of the experts (model.expertsGiB, else sizeGiB, over %s workers), " (include "numoe.workerTotal" .root)) (ne .root.Values.workers.hugepages ""))) }}{{ end -}}
{{- end -}}
{{- if .root.Values.workers.hugepages -}}
{{- if not (or .root.Values.model.sizeGiB .root.Values.model.expertsGiB) }}{{ fail (printf "workers.hugepages is %s, but how many is unknown: set model.expertsGiB, the size of the routed experts as workers hold them" .root.Values.workers.hugepages) }}{{ end -}}
{{- if not (or $have (get (default dict .resources.limits) "cpu") (get (default dict .resources.requests) "cpu")) }}{{ fail (printf "workers.hugepages is %s, but %s has neither cpu nor memory, without which Kubernetes gives no huge pages: set them" .root.Values.workers.hugepages .name) }}{{ end -}}
{{- if and .root.Values.pack.enabled (eq .root.Values.workers.packed "map") }}{{ fail (printf "workers.hugepages is %s, but packed weights are mapped from the page cache (workers.packed: map): use workers.packed: copy" .root.Values.workers.hugepages) }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "numoe.validateResources" -}}
{{- $pinned := eq .Values.pinning "required" -}}
{{- $supervised := eq .Values.workers.mode "supervised" -}}
{{- if $pinned }}{{ include "numoe.validateGuaranteed" (dict "name" "coordinator.resources" "resources" (include "numoe.coordinatorResources" . | fromYaml) "whole" false) }}{{ end -}}
{{- if $pinned }}{{ range .Values.extraContainers }}{{ include "numoe.validateGuaranteed" (dict "name" (printf "extraContainers %s: resources" .name) "resources" (default dict .resources) "whole" false) }}{{ end }}{{ end -}}
{{- range $i := until (ternary 1 (int .Values.workers.count) (and $supervised (gt (int .Values.workers.count) 0))) -}}
{{- $resources := ternary $.Values.workers.resources (include "numoe.workerResources" (dict "root" $ "index" $i) | fromYaml) $supervised -}}
{{- $name := ternary "workers.resources" (printf "workers.overrides[%d].resources" $i) (or $supervised (le (len $.Values.workers.overrides) $i)) -}}
{{- if $pinned }}{{ include "numoe.validateGuaranteed" (dict "name" $name "resources" $resources "whole" true) }}{{ end -}}
{{- include "numoe.validateMemory" (dict "root" $ "name" $name "resources" $resources "slices" (ternary (int $.Values.workers.count) 1 $supervised)) -}}
{{- end -}}
{{- if .Values.remoteWorkers.enabled -}}
{{- if $pinned }}{{ include "numoe.validateGuaranteed" (dict "name" "remoteWorkers.resources" "resources" .Values.remoteWorkers.resources "whole" true) }}{{ end -}}
{{- include "numoe.validateMemory" (dict "root" . "name" "remoteWorkers.resources" "resources" .Values.remoteWorkers.resources "slices" 1) -}}
{{- end -}}
{{- with .Values.sharedMemory.size -}}
{{- $mailbox := mul (include "numoe.mailboxMiB" $ | int) (include "numoe.coordinators" $ | int) -}}
{{- if lt (include "numoe.mib" . | int) (int $mailbox) }}{{ fail (printf "sharedMemory.size is %s, less than the %dMi of one worker's mailboxes: leave it empty, which computes it" . $mailbox) }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* Refuses flags that the chart sets itself. Arguments: where, flags, taken (a map from each such flag to what to use instead). */}}
{{- define "numoe.validateFlagsOf" -}}
{{- $taken := .taken -}}
{{- $where := .where -}}
{{- range $name, $_ := .flags -}}
{{- if hasKey $taken $name }}{{ fail (printf "%s.%s: the chart sets this flag; %s" $where $name (get $taken $name)) }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "numoe.validateFlags" -}}
{{- $secret := "put the keys into a Secret and name it in apiKeys.secretName" -}}
{{- $_ := include "numoe.validateFlagsOf" (dict "where" "coordinator.flags" "flags" .Values.coordinator.flags "taken" (dict
  "model" "use model.directory" "workers" "it follows from workers and remoteWorkers" "host" "use listenHost" "port" "use coordinator.port"
  "served-model-name" "use model.servedName" "drain-timeout-ms" "use coordinator.drainSeconds" "worker-deadline-ms" "use coordinator.workerDeadlineSeconds" "worker-start-timeout-ms" "the startup probe is the limit"
  "device" "use coordinator.gpu" "api-key" $secret "api-key-file" $secret "admin-api-key" $secret "admin-api-key-file" "use apiKeys.adminKey" "ssl-certfile" "use tls" "ssl-keyfile" "use tls"
  "worker-ssl-certfile" "use mtls" "worker-ssl-keyfile" "use mtls" "worker-ssl-ca-certs" "use mtls" "log-format" "logs are JSON")) -}}
{{- $_ := include "numoe.validateFlagsOf" (dict "where" "workers.flags" "flags" .Values.workers.flags "taken" (dict
  "model" "use model.directory" "slice" "use workers.slice" "worker-index" "it is the worker's place" "worker-count" "use workers.count"
  "listen" "use workers.port" "metrics-host" "use listenHost" "metrics-port" "use workers.metricsPort" "format" "use workers.format" "hugepages" "use workers.hugepages"
  "activations" "use workers.activations" "packed" "use workers.packed" "share-experts" "use workers.shareExperts" "threads" "use workers.threads" "log-format" "logs are JSON" "health-listen" "use workers.healthPort"
  "drain-timeout-ms" "use coordinator.drainSeconds" "pinning" "use pinning" "exclusive-cpus" "it follows from workers.resources" "supervise" "use workers.mode"
  "local-workers" "use workers.count and remoteWorkers.workersPerHost" "ssl-certfile" "use mtls" "ssl-keyfile" "use mtls" "ssl-ca-certs" "use mtls")) -}}
{{- end -}}

{{/* Sharing experts needs both ends: workers that share them, and a GPU that fetches them from all workers. */}}
{{- define "numoe.validateSharedExperts" -}}
{{- $w := .Values.workers -}}
{{- $threshold := get .Values.coordinator.flags "gpu-prefill-token-threshold" | default "off" | toString -}}
{{- $fetches := ne $threshold "off" -}}
{{- if and $fetches (not $w.shareExperts) }}{{ fail (printf "coordinator.flags.gpu-prefill-token-threshold is %s, but workers.shareExperts is false, so there are no experts to fetch: set workers.shareExperts: true, or leave the flag out" $threshold) }}{{ end -}}
{{- if $w.shareExperts -}}
{{- if not $fetches }}{{ fail "workers.shareExperts, but coordinator.flags.gpu-prefill-token-threshold is off, so nobody maps them: set it to auto or a number of tokens, or workers.shareExperts: false" }}{{ end -}}
{{- if eq (int .Values.coordinator.gpu.count) 0 }}{{ fail "workers.shareExperts, but coordinator.gpu.count is 0, and only a GPU fetches experts: set coordinator.gpu.count, or workers.shareExperts: false" }}{{ end -}}
{{- if .Values.remoteWorkers.enabled }}{{ fail "workers.shareExperts with remoteWorkers.enabled: a GPU fetches from workers of its own host alone, and needs all of them; use workers.count alone, or workers.shareExperts: false" }}{{ end -}}
{{- if get $w.flags "no-shared-memory" }}{{ fail "workers.shareExperts with workers.flags.no-shared-memory: weights are shared as layer calls are; remove one of them" }}{{ end -}}
{{- if and .Values.pack.enabled (eq $w.packed "map") }}{{ fail "workers.shareExperts, but packed weights are mapped from the page cache (workers.packed: map), which a GPU cannot read: use workers.packed: copy" }}{{ end -}}
{{- $resources := default dict .Values.coordinator.resources -}}
{{- $limit := get (default dict $resources.limits) "memory" -}}
{{- $tables := include "numoe.sharedTablesMiB" (dict "root" . "slices" $w.count) | int -}}
{{- if and $limit (lt (include "numoe.mib" $limit | int) $tables) }}{{ fail (printf "coordinator.resources.limits.memory is %v, but the page tables of the experts that it maps alone take %dMi: give it more, or use workers.hugepages" $limit $tables) }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "numoe.validateAccess" -}}
{{- $t := .Values.tls -}}
{{- if and (not $t.enabled) (or $t.secretName $t.certManager.enabled) }}{{ fail "tls.secretName or tls.certManager.enabled is set, but tls.enabled is false, so the API would be plain HTTP: set tls.enabled, or leave them out" }}{{ end -}}
{{- if and $t.enabled (not $t.secretName) (not $t.certManager.enabled) }}{{ fail "tls.enabled, but there is no certificate: name a Secret of type kubernetes.io/tls in tls.secretName, or set tls.certManager.enabled and issuerRef" }}{{ end -}}
{{- if and $t.enabled $t.certManager.enabled (not (get $t.certManager.issuerRef "name")) }}{{ fail "tls.certManager.enabled, but tls.certManager.issuerRef has no name: give {name: ..., kind: Issuer or ClusterIssuer}" }}{{ end -}}
{{- $keys := .Values.apiKeys -}}
{{- if and $keys.adminKey (not $keys.secretName) }}{{ fail (printf "apiKeys.adminKey is %q, but apiKeys.secretName is empty, so the API would have no keys and everyone could use it: name the Secret that has both entries, or leave apiKeys.adminKey empty" $keys.adminKey) }}{{ end -}}
{{- if and $keys.adminKey (eq $keys.adminKey $keys.key) }}{{ fail (printf "apiKeys.adminKey and apiKeys.key are both %q, but a key is either an admin's or a client's, so the coordinator would not start: put the admins' keys alone into another entry of Secret %s and name it in apiKeys.adminKey, or leave that empty" $keys.key $keys.secretName) }}{{ end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}{{ fail "ingress.enabled, but ingress.host is empty: give the name that clients use" }}{{ end -}}
{{- end -}}

{{/* GPUs are given only by coordinator.gpu.count, because the image, the flags and the Services depend on it. */}}
{{- define "numoe.validateGpus" -}}
{{- range $kind := list "requests" "limits" -}}
{{- range $name, $count := get $.Values.coordinator.resources $kind | default dict -}}
{{- if hasSuffix "/gpu" $name }}{{ fail (printf "coordinator.resources.%s has %s: set coordinator.gpu.count to %v instead, which asks for the cards and chooses the image with the CUDA device" $kind $name $count) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "numoe.validateMtls" -}}
{{- $m := .Values.mtls -}}
{{- $cert := $m.certManager -}}
{{- if $m.enabled -}}
{{- if not .Values.remoteWorkers.enabled }}{{ fail "mtls.enabled, but remoteWorkers.enabled is false: workers of a coordinator's own host are reached through sockets of their pod, which need no TLS; leave mtls off, or enable remoteWorkers" }}{{ end -}}
{{- if and (not $cert.enabled) (not (and $m.workerSecretName $m.coordinatorSecretName)) }}{{ fail (printf "mtls.enabled, but mtls.workerSecretName is %q and mtls.coordinatorSecretName %q: name both Secrets (tls.crt, tls.key, ca.crt), or set mtls.certManager.enabled" $m.workerSecretName $m.coordinatorSecretName) }}{{ end -}}
{{- if and $cert.enabled (eq (include "numoe.workerTlsSecretName" .) (include "numoe.coordinatorTlsSecretName" .)) }}{{ fail (printf "mtls.certManager.enabled, but both certificates would be written to Secret %s: give mtls.workerSecretName and mtls.coordinatorSecretName different names, or none" $m.workerSecretName) }}{{ end -}}
{{- if and $cert.enabled $cert.issuerRef (not (get $cert.issuerRef "name")) }}{{ fail "mtls.certManager.issuerRef has no name: give {name: ..., kind: Issuer or ClusterIssuer}, or nothing for a CA of the release's own" }}{{ end -}}
{{- else if $cert.enabled }}{{ fail "mtls.certManager.enabled, but mtls.enabled is false: set both, or neither" }}
{{- else if or $m.workerSecretName $m.coordinatorSecretName }}{{ fail "mtls.workerSecretName or mtls.coordinatorSecretName is set, but mtls.enabled is false, so workers would be asked without TLS: set mtls.enabled, or leave them out" }}{{ end -}}
{{- end -}}

{{- define "numoe.validateRouter" -}}
{{- $ofPod := include "numoe.coordinators" . | int -}}
{{- if and (gt $ofPod 1) (not (or .Values.router.enabled .Values.inferencePool.enabled)) }}{{ fail (printf "coordinator.gpu.count is %d, so each pod has %d coordinators with a port for each, and a Service has one: set router.enabled, which answers for all of them at one address, or coordinator.gpu.count: 1" $ofPod $ofPod) }}{{ end -}}
{{- if .Values.router.enabled -}}
{{- $backendsMax := 64 -}}
{{- $auto := .Values.autoscaling -}}
{{- $what := ternary "autoscaling.maxReplicas" "replicas" $auto.enabled -}}
{{- $replicas := ternary (int $auto.maxReplicas) (int .Values.replicas) $auto.enabled -}}
{{- $coordinators := mul $replicas $ofPod | int -}}
{{- if eq $coordinators 1 }}{{ fail (printf "router.enabled, but %s is 1 and coordinator.gpu.count not above 1: in front of one coordinator the router does nothing; set %s or coordinator.gpu.count to the number of coordinators, or leave the router off" $what $what) }}{{ end -}}
{{- if gt $coordinators $backendsMax }}{{ fail (printf "router.enabled, but %s is %d and each pod has %d coordinators, %d in all: a router has at most %d backends; use fewer, or several releases" $what $replicas $ofPod $coordinators $backendsMax) }}{{ end -}}
{{- if hasKey .Values.coordinator.flags "allowed-origins" }}{{ fail "router.enabled, but coordinator.flags.allowed-origins is set: web pages then ask the router, which answers for CORS itself; use router.flags.allowed-origins" }}{{ end -}}
{{- $keys := "coordinators check the keys, which the router passes on; use apiKeys and coordinator.flags" -}}
{{- $_ := include "numoe.validateFlagsOf" (dict "where" "router.flags" "flags" .Values.router.flags "taken" (dict
  "backends" "it follows from replicas and coordinator.gpu" "host" "use listenHost" "port" "use coordinator.port" "drain-timeout-ms" "use coordinator.drainSeconds"
  "api-key" $keys "api-key-file" $keys "admin-api-key" $keys "admin-api-key-file" $keys "max-requests-per-key" $keys "ssl-certfile" "use tls" "ssl-keyfile" "use tls" "log-format" "logs are JSON")) -}}
{{- end -}}
{{- end -}}
