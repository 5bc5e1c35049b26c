{{/* Numbers that follow from others: quantities, slices, memory, times. Integers come back as decimal text. */}}

{{/* Kubernetes' quantity of bytes in MiB, rounded down. */}}
{{- define "numoe.mib" -}}
{{- $text := toString . -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" $text | float64 -}}
{{- $unit := regexReplaceAll "^[0-9.]+" $text "" -}}
{{- $units := dict "" 9.5367431640625e-07 "k" 0.00095367431640625 "M" 0.95367431640625 "G" 953.67431640625 "T" 953674.31640625 "Ki" 0.0009765625 "Mi" 1.0 "Gi" 1024.0 "Ti" 1048576.0 -}}
{{- if not (hasKey $units $unit) }}{{ fail (printf "a quantity of memory is %q: expected a number and Ki, Mi, Gi, Ti, k, M, G, T or nothing, as in 300Gi" $text) }}{{ end -}}
{{- floor (mulf $number (get $units $unit)) | int64 -}}
{{- end -}}

{{/* Kubernetes' quantity of CPUs in thousandths. */}}
{{- define "numoe.milli" -}}
{{- $text := toString . -}}
{{- if hasSuffix "m" $text }}{{ trimSuffix "m" $text | int64 }}{{ else }}{{ mulf (float64 $text) 1000.0 | int64 }}{{ end -}}
{{- end -}}

{{/* The CPUs that a container may have for itself, where the kubelet's static policy gives them: a whole number that is both its
limit and its request. Empty: none. A supervisor divides them among its workers, unless they are pinned. */}}
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

{{/* Slices in all. */}}
{{- define "numoe.workerTotal" -}}
{{- add (int .Values.workers.count) (mul (include "numoe.remoteHosts" . | int) (int .Values.remoteWorkers.workersPerHost)) -}}
{{- end -}}

{{- define "numoe.slice" -}}
{{- default (ternary "expert" "intermediate" .Values.remoteWorkers.enabled) .Values.workers.slice -}}
{{- end -}}

{{/* A session's mailbox: two slots (there and back) for 8192 tokens of FP32, the largest layer call. */}}
{{- define "numoe.mailboxMiB" -}}
{{- div (add (mul 2 8192 (int .Values.model.hiddenSize) 4) 1048575) 1048576 -}}
{{- end -}}

{{/* A host's mailboxes, and a quarter: one of every coordinator at every worker. */}}
{{- define "numoe.sharedMemoryMiB" -}}
{{- div (mul (include "numoe.mailboxMiB" . | int) (max 1 (int .Values.workers.count)) (include "numoe.coordinators" . | int) 5) 4 -}}
{{- end -}}

{{- define "numoe.sliceMiB" -}}
{{- $experts := float64 (default .Values.model.sizeGiB .Values.model.expertsGiB) -}}
{{- divf (mulf $experts 1024.0) (include "numoe.workerTotal" . | float64) | ceil | int -}}
{{- end -}}

{{/*
  Page tables of shared memory, which has pages of 4 KiB where nodes do not allow huge ones: 8 bytes for each. A worker has them
  for its slice, a coordinator that maps all of a host's slices for all of them. Arguments: root, slices.
*/}}
{{- define "numoe.sharedTablesMiB" -}}
{{- $plain := and .root.Values.workers.shareExperts (eq .root.Values.workers.hugepages "") -}}
{{- ternary (div (add (mul (include "numoe.sliceMiB" .root | int) (int .slices)) 511) 512) 0 $plain -}}
{{- end -}}

{{/*
  What a worker must have: its slice where that is no reserved huge pages, a mailbox for each coordinator of its host, and 1 GiB
  for reading, scratch and the program.
*/}}
{{- define "numoe.workerMiB" -}}
{{- $slice := ternary 0 (include "numoe.sliceMiB" . | int) (ne .Values.workers.hugepages "") -}}
{{- $mailboxes := mul (include "numoe.mailboxMiB" . | int) (include "numoe.coordinators" . | int) -}}
{{- add $slice (include "numoe.sharedTablesMiB" (dict "root" . "slices" 1) | int) $mailboxes 1024 -}}
{{- end -}}

{{/* Huge pages of so many slices, each of whole pages; every layer of a slice begins at 2 MiB. Arguments: root, workers. */}}
{{- define "numoe.hugePages" -}}
{{- $layersMax := 128 -}}
{{- $slice := add (include "numoe.sliceMiB" .root | int) (mul 2 $layersMax) -}}
{{- if eq .root.Values.workers.hugepages "1G" -}}
{{- mul (int .workers) (div (add $slice 1023) 1024) -}}Gi
{{- else -}}
{{- mul (int .workers) 2 (div (add $slice 1) 2) -}}Mi
{{- end -}}
{{- end -}}

{{/* A worker container's resources. Arguments: root, resources, workers (in it). */}}
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

{{/* Seconds in which a start must succeed, in tens: download, packing, loading, margin. */}}
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
