{{/* Checks texts and amounts: names, paths, addresses, labels, variables, resources. */}}

{{- define "numoe.validateTexts" -}}
{{- $name := include "numoe.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) }}{{ fail (printf "the objects' name would be %q, which a Service cannot have: it begins with a letter, followed by letters, digits and -; set fullnameOverride, or choose another nameOverride or release name" $name) }}{{ end -}}
{{- if not (regexMatch "^([a-zA-Z0-9][-a-zA-Z0-9.]*(:[0-9]+)?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*$" .Values.image.repository) }}{{ fail (printf "image.repository is %q: expected [REGISTRY[:PORT]/]NAME in lower case; a tag belongs into image.tag" .Values.image.repository) }}{{ end -}}
{{- range $what, $path := dict "model.directory" .Values.model.directory "persistence.hostPath" .Values.persistence.hostPath -}}
{{- if regexMatch "(^|/)[.][.]?(/|$)|[[:cntrl:][:space:]]|//" $path }}{{ fail (printf "%s is %q: expected a path without . and .., empty parts and spaces" $what $path) }}{{ end -}}
{{- end -}}
{{- if and (eq .Values.dnsPolicy "None") (not (get .Values.dnsConfig "nameservers")) }}{{ fail "dnsPolicy is None, but dnsConfig has no nameservers, so pods would know no names: give dnsConfig.nameservers, or leave dnsPolicy empty" }}{{ end -}}
{{- $ipv4 := "((25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])[.]){3}(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])" -}}
{{- $ipv6 := list "::" "(X:){7}X" ":(:X){1,7}" "(X:){1,7}:" -}}
{{- range $n := untilStep 1 7 1 }}{{ $ipv6 = append $ipv6 (printf "(X:){%d}(:X){1,%d}" $n (sub 7 $n)) }}{{ end -}}
{{- $address := printf "^(%s|%s)$" $ipv4 (join "|" $ipv6 | replace "X" "[0-9a-fA-F]{1,4}") -}}
{{- if not (regexMatch $address .Values.listenHost) }}{{ fail (printf "listenHost is %q: expected an IP address; 0.0.0.0 is every IPv4 address of the pod, :: every IPv6 address" .Values.listenHost) }}{{ end -}}
{{- end -}}

{{/* Refuses labels that an object would have twice: the chart's own, and those that every object has already. */}}
{{- define "numoe.validateLabels" -}}
{{- $own := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" "numoe/headless" "numoe/host" -}}
{{- $metrics := .Values.metrics -}}
{{- range $where, $labels := dict "labels" .Values.labels "metrics.monitors.labels" $metrics.monitors.labels "metrics.rules.labels" $metrics.rules.labels "metrics.dashboards.labels" $metrics.dashboards.labels -}}
{{- range $key, $_ := $labels -}}
{{- if has $key $own }}{{ fail (printf "%s has %s, which the chart sets itself, as its selectors need it: use a key of yours" $where $key) }}{{ end -}}
{{- if and (ne $where "labels") (hasKey $.Values.labels $key) }}{{ fail (printf "%s has %s, which labels puts on every object: leave it out of one of them" $where $key) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Checks lists of Kubernetes in which no two elements may have the same name. */}}
{{- define "numoe.validateNamed" -}}
{{- $variables := list "WAIT_FOR" "WAIT_FOR_PACKED" "WAIT_MIB" "INDEX_BASE" "INDEX_STEP" "POD_NAME" -}}
{{- $volumes := list "weights" "scripts" "shm" "sockets" "tmp" "keys" "tls" "mtls" "heat" "token" -}}
{{- $containers := list "coordinator" "workers" -}}
{{- range $i := until 64 }}{{ $containers = append $containers (printf "worker-%d" $i) }}{{ if lt $i 16 }}{{ $containers = append $containers (printf "coordinator-%d" $i) }}{{ end }}{{ end -}}
{{- $lists := list
  (dict "where" "coordinator.extraEnv" "own" $variables "list" .Values.coordinator.extraEnv) (dict "where" "workers.extraEnv" "own" $variables "list" .Values.workers.extraEnv)
  (dict "where" "download.extraEnv" "own" list "list" .Values.download.extraEnv) (dict "where" "extraVolumes" "own" $volumes "list" .Values.extraVolumes)
  (dict "where" "download.extraVolumes" "own" $volumes "list" .Values.download.extraVolumes) (dict "where" "extraContainers" "own" $containers "list" .Values.extraContainers) -}}
{{- range $lists -}}
{{- $where := .where -}}
{{- $seen := .own -}}
{{- range .list -}}
{{- if has .name $seen }}{{ fail (printf "%s has %s, which is there already: the chart's own, or twice in the list; use another name, or leave it out" $where .name) }}{{ end -}}
{{- $seen = append $seen .name -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* An amount as an integer: MiB, or thousandths of CPUs if what is "cpu". Arguments: what, amount. */}}
{{- define "numoe.amount" -}}
{{- if eq .what "cpu" }}{{ include "numoe.milli" .amount }}{{ else }}{{ include "numoe.mib" .amount }}{{ end -}}
{{- end -}}

{{/* Checks requests and limits. Arguments: name, resources. */}}
{{- define "numoe.validateAmounts" -}}
{{- $name := .name -}}
{{- $memoryMinMiB := 64 -}}
{{- $resources := default dict .resources -}}
{{- $limits := default dict $resources.limits -}}
{{- $requests := default dict $resources.requests -}}
{{- range $kind, $amounts := dict "limits" $limits "requests" $requests -}}
{{- with get $amounts "memory" -}}
{{- if lt (include "numoe.mib" . | int) $memoryMinMiB }}{{ fail (printf "%s.%s.memory is %v, less than the %dMi that any program here needs: is a unit missing, as in 8Gi?" $name $kind . $memoryMinMiB) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- range $what, $request := $requests -}}
{{- if hasKey $limits $what -}}
{{- $limit := get $limits $what -}}
{{- if has $what (list "cpu" "memory" "ephemeral-storage") -}}
{{- if gt (include "numoe.amount" (dict "what" $what "amount" $request) | int) (include "numoe.amount" (dict "what" $what "amount" $limit) | int) }}{{ fail (printf "%s asks for %s %v, more than its limit of %v: lower the request, or raise the limit" $name $what $request $limit) }}{{ end -}}
{{- else if ne (toString $request) (toString $limit) }}{{ fail (printf "%s asks for %s %v with a limit of %v: Kubernetes requires that request and limit of such a resource are equal; make them equal" $name $what $request $limit) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "numoe.validateAllAmounts" -}}
{{- range $name, $part := dict "coordinator" .Values.coordinator "workers" .Values.workers "remoteWorkers" .Values.remoteWorkers "router" .Values.router "download" .Values.download "pack" .Values.pack -}}
{{- include "numoe.validateAmounts" (dict "name" (printf "%s.resources" $name) "resources" $part.resources) -}}
{{- end -}}
{{- range $i, $override := .Values.workers.overrides -}}
{{- include "numoe.validateAmounts" (dict "name" (printf "workers.overrides[%d].resources" $i) "resources" $override.resources) -}}
{{- end -}}
{{- end -}}

{{- define "numoe.validateService" -}}
{{- $s := .Values.service -}}
{{- if ne $s.type "LoadBalancer" -}}
{{- range $name := list "loadBalancerClass" "loadBalancerSourceRanges" -}}
{{- if get $s $name }}{{ fail (printf "service.%s is set, but service.type is %s: use LoadBalancer, or leave it empty" $name $s.type) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if eq $s.type "ClusterIP" -}}
{{- if $s.nodePort }}{{ fail (printf "service.nodePort is %d, but service.type is ClusterIP, which has none: use NodePort or LoadBalancer, or 0" (int $s.nodePort)) }}{{ end -}}
{{- if $s.externalTrafficPolicy }}{{ fail (printf "service.externalTrafficPolicy is %s, but service.type is ClusterIP, which has no traffic from outside: use NodePort or LoadBalancer, or leave it empty" $s.externalTrafficPolicy) }}{{ end -}}
{{- end -}}
{{- if and (or (eq $s.ipFamilyPolicy "") (eq $s.ipFamilyPolicy "SingleStack")) (gt (len $s.ipFamilies) 1) }}{{ fail (printf "service.ipFamilies is %v, but service.ipFamilyPolicy allows one: use PreferDualStack or RequireDualStack" $s.ipFamilies) }}{{ end -}}
{{- end -}}

{{- define "numoe.validateHeat" -}}
{{- $heat := .Values.coordinator.heat -}}
{{- if $heat.enabled -}}
{{- if not (include "numoe.gpuPod" .) }}{{ fail "coordinator.heat.enabled, but coordinator.gpu.count is 0: only a coordinator on a GPU learns which experts to keep there; set coordinator.gpu.count, or leave coordinator.heat off" }}{{ end -}}
{{- if eq (get .Values.coordinator.flags "num-gpu-experts" | toString) "0" }}{{ fail "coordinator.heat.enabled, but coordinator.flags.num-gpu-experts is 0: the file says which experts to keep on the GPU, and none are kept there; set coordinator.flags.num-gpu-experts (auto, or a number), or leave coordinator.heat off" }}{{ end -}}
{{- if hasKey .Values.coordinator.flags "expert-heat-file" }}{{ fail "coordinator.heat.enabled names the file itself: leave coordinator.flags.expert-heat-file out" }}{{ end -}}
{{- if and (or (gt (int .Values.replicas) 1) .Values.autoscaling.enabled) (not (has "ReadWriteMany" $heat.accessModes)) }}{{ fail (printf "several hosts keep their files in the claim of coordinator.heat, but coordinator.heat.accessModes is %v: use [ReadWriteMany], or leave coordinator.heat off" $heat.accessModes) }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "numoe.validateGateway" -}}
{{- $pool := .Values.inferencePool -}}
{{- if and .Values.gateway.enabled (not .Values.gateway.parentRefs) }}{{ fail "gateway.enabled, but gateway.parentRefs is empty: name the Gateway, as in [{name: public, namespace: gateways}]" }}{{ end -}}
{{- if $pool.enabled -}}
{{- if .Values.router.enabled }}{{ fail "inferencePool.enabled and router.enabled: both choose a coordinator for each request, and coordinators behind a router answer it alone; use one of them" }}{{ end -}}
{{- if .Values.tls.enabled }}{{ fail "inferencePool.enabled and tls.enabled: Gateways and endpoint pickers ask the members of a pool in plain text; leave tls off and let the Gateway end TLS, or use the router" }}{{ end -}}
{{- if gt (include "numoe.coordinators" . | int) 8 }}{{ fail (printf "inferencePool.enabled, but each pod has %s coordinators, and a pool has at most 8 ports: use the router" (include "numoe.coordinators" .)) }}{{ end -}}
{{- if and (not $pool.picker.enabled) (not $pool.picker.serviceName) }}{{ fail "inferencePool.enabled, but inferencePool.picker.enabled is false and inferencePool.picker.serviceName is empty: name the Service of your endpoint picker, or let the chart make one" }}{{ end -}}
{{- if and $pool.picker.enabled (not (or $pool.picker.image.tag $pool.picker.image.digest)) }}{{ fail "inferencePool.picker.image has neither tag nor digest, so it would be another image every day: give one of them" }}{{ end -}}
{{- end -}}
{{- end -}}
