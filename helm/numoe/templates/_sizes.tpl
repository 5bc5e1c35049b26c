{{/* Numbers that are computed from values: quantities, slices, memory, times. Integers are returned as decimal text. */}}

{{/* A quantity of memory in Kubernetes' notation, in MiB, rounded down. */}}
{{- define "numoe.mib" -}}
{{- $text := toString . -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" $text | float64 -}}
{{- $unit := regexReplaceAll "^[0-9.]+" $text "" -}}
{{- $units := dict "" 9.5367431640625e-07 "k" 0.00095367431640625 "M" 0.95367431640625 "G" 953.67431640625 "T" 953674.31640625 "Ki" 0.0009765625 "Mi" 1.0 "Gi" 1024.0 "Ti" 1048576.0 -}}
{{- if not (hasKey $units $unit) }}{{ fail (printf "a quantity of memory is %q: expected a number and Ki, Mi, Gi, Ti, k, M, G, T or nothing, as in 300Gi" $text) }}{{ end -}}
{{- floor (mulf $number (get $units $unit)) | int64 -}}
{{- end -}}

{{/* A quantity of CPUs in Kubernetes' notation, in thousandths. */}}
{{- define "numoe.milli" -}}
{{- $text := toString . -}}
{{- if hasSuffix "m" $text }}{{ trimSuffix "m" $text | int64 }}{{ else }}{{ mulf (float64 $text) 1000.0 | int64 }}{{ end -}}
{{- end -}}

{{/* The number of CPUs that a container may have exclusively under the kubelet's static policy: a whole number that is both its limit and
its request; otherwise empty. Empty also for a supervisor that is not pinned, which divides the CPUs among its workers. Arguments:
resources, workers (in the container), all (whether the workers are pinned). */}}
{{- define "numoe.wholeCpus" -}}
{{- $limit := (default dict .resources.limits).cpu -}}
{{- $request := default $limit (default dict .resources.requests).cpu -}}
{{- if and $limit (or .all (eq (int .workers) 1)) -}}
{{- $milli := include "numoe.milli" $limit | int -}}
{{- if and (eq (mod $milli 1000) 0) (eq $milli (include "numoe.milli" $request | int)) }}{{ div $milli 1000 }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "numoe.remoteHosts" -}}
{{- ternary (int .Values.remoteWorkers.replicas) 0 .Values.remoteWorkers.enabled -}}
{{- end -}}

{{/* The number of all slices, on all hosts. */}}
{{- define "numoe.workerTotal" -}}
{{- add (int .Values.workers.count) (mul (include "numoe.remoteHosts" . | int) (int .Values.remoteWorkers.workersPerHost)) -}}
{{- end -}}

{{- define "numoe.slice" -}}
{{- default (ternary "expert" "intermediate" .Values.remoteWorkers.enabled) .Values.workers.slice -}}
{{- end -}}

{{/* The size of a session's mailbox: two slots (request and reply) for 8192 tokens of FP32, the largest layer call. */}}
{{- define "numoe.mailboxMiB" -}}
{{- div (add (mul 2 8192 (int .Values.model.hiddenSize) 4) 1048575) 1048576 -}}
{{- end -}}

{{/* 1.25 times the size of a host's mailboxes; every coordinator has one at every worker. */}}
{{- define "numoe.sharedMemoryMiB" -}}
{{- div (mul (include "numoe.mailboxMiB" . | int) (max 1 (int .Values.workers.count)) (include "numoe.coordinators" . | int) 5) 4 -}}
{{- end -}}

{{- define "numoe.sliceMiB" -}}
{{- $experts := float64 (default .Values.model.sizeGiB .Values.model.expertsGiB) -}}
{{- divf (mulf $experts 1024.0) (include "numoe.workerTotal" . | float64) | ceil | int -}}
{{- end -}}

{{/*
  The size of the page tables of shared memory, which has pages of 4 KiB if a node does not allow huge ones: 8 bytes for each page. A worker
  maps its own slice, a coordinator all slices of its host. Arguments: root, slices (that the process maps).
*/}}
{{- define "numoe.sharedTablesMiB" -}}
{{- $plain := and .root.Values.workers.shareExperts (eq .root.Values.workers.hugepages "") -}}
{{- ternary (div (add (mul (include "numoe.sliceMiB" .root | int) (int .slices)) 511) 512) 0 $plain -}}
{{- end -}}

{{/*
  The memory that a worker needs: its slice, unless that is in reserved huge pages, a mailbox for each coordinator of its host, and 1 GiB
  for reading, temporary buffers and the program.
*/}}
{{- define "numoe.workerMiB" -}}
{{- $slice := ternary 0 (include "numoe.sliceMiB" . | int) (ne .Values.workers.hugepages "") -}}
{{- $mailboxes := mul (include "numoe.mailboxMiB" . | int) (include "numoe.coordinators" . | int) -}}
{{- add $slice (include "numoe.sharedTablesMiB" (dict "root" . "slices" 1) | int) $mailboxes 1024 -}}
{{- end -}}

{{/* The huge pages for the slices of a container. A slice takes whole pages, and each of its layers begins at a multiple of 2 MiB. Arguments: root, workers (number of slices). */}}
{{- define "numoe.hugePages" -}}
{{- $layersMax := 128 -}}
{{- $slice := add (include "numoe.sliceMiB" .root | int) (mul 2 $layersMax) -}}
{{- if eq .root.Values.workers.hugepages "1G" -}}
{{- mul (int .workers) (div (add $slice 1023) 1024) -}}Gi
{{- else -}}
{{- mul (int .workers) 2 (div (add $slice 1) 2) -}}Mi
{{- end -}}
{{- end -}}

{{/* The resources of a worker's container, including huge pages. Arguments: root, resources, workers (in it). */}}
{{- define "numoe.workerLimits" -}}
{{- $resources := deepCopy (default dict .resources) -}}
{{- with .root.Values.workers.hugepages -}}
{{- $limits := set (default dict $resources.limits) (printf "hugepages-%si" .) (include "numoe.hugePages" $) -}}
{{- $_ := set $resources "limits" $limits -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{- define "numoe.downloadSeconds" -}}
{{- ternary (divf (mulf (float64 .Values.model.sizeGiB) 1024.0) (float64 .Values.download.floorMiBps) | ceil | int) 0 .Values.download.enabled -}}
{{- end -}}

{{- define "numoe.loadSeconds" -}}
{{- divf (mulf (float64 .Values.model.sizeGiB) 1024.0) (float64 .Values.probes.loadFloorMiBps) | ceil | int -}}
{{- end -}}

{{/* The seconds that a start may take, a multiple of ten: download, packing, loading and margin. */}}
{{- define "numoe.startupSeconds" -}}
{{- $load := include "numoe.loadSeconds" . | int -}}
{{- $pack := ternary (mul 2 $load) 0 .Values.pack.enabled | int -}}
{{- mul (div (add (include "numoe.downloadSeconds" . | int) $pack $load (int .Values.probes.marginSeconds) 9) 10) 10 -}}
{{- end -}}

{{- define "numoe.claimSize" -}}
{{- if .Values.persistence.size }}{{ .Values.persistence.size }}{{ else -}}
{{- $copies := ternary 2.0 1.0 .Values.pack.enabled -}}
{{- printf "%dGi" (mulf (float64 .Values.model.sizeGiB) $copies 1.15 | ceil | int) -}}
{{- end -}}
{{- end -}}

{{- define "numoe.graceSeconds" -}}
{{- add (int .Values.coordinator.preStopSeconds) (int .Values.coordinator.drainSeconds) 20 -}}
{{- end -}}
