{{/* What all pods have in common. */}}

{{/* Numbers that are null are left out: OpenShift chooses them from the namespace's range. */}}
{{- define "numoe.podSecurity" -}}
runAsNonRoot: true
{{- range $name := list "runAsUser" "runAsGroup" "fsGroup" }}
{{- with get (default dict $.Values.podSecurity) $name }}
{{ $name }}: {{ . }}
{{- end }}
{{- end }}
# Changing the owner of every file of a large volume takes minutes, and again at every start.
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "numoe.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Head of every pod's spec. Without service links: a Service called numoe would set NUMOE_PORT, which is a flag. */}}
{{- define "numoe.podHead" -}}
automountServiceAccountToken: false
enableServiceLinks: false
serviceAccountName: {{ include "numoe.serviceAccountName" . | toYaml }}
{{- $secrets := .Values.image.pullSecrets -}}
{{- range default list (get (default dict .Values.global) "imagePullSecrets") }}
{{- $secrets = append $secrets (ternary (dict "name" .) . (kindIs "string" .)) }}
{{- end }}
{{- with $secrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $name := list "priorityClassName" "schedulerName" "dnsPolicy" }}
{{- with get $.Values $name }}
{{ $name }}: {{ toYaml . }}
{{- end }}
{{- end }}
{{- range $name := list "dnsConfig" "hostAliases" }}
{{- with get $.Values $name }}
{{ $name }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
securityContext:
  {{- include "numoe.podSecurity" . | nindent 2 }}
{{- end -}}

{{/* Where pods go. Arguments: root, component, nodeSelector, tolerations, affinity, spread (they keep apart). */}}
{{- define "numoe.placement" -}}
{{- /* The image's programs are for these alone. */}}
nodeSelector:
  {{- merge (dict) .nodeSelector (dict "kubernetes.io/arch" "amd64" "kubernetes.io/os" "linux") | toYaml | nindent 2 }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $apart := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "numoe.selector" . | fromYaml)) -}}
{{- $affinity := deepCopy .affinity -}}
{{- if and .spread (not (hasKey $affinity "podAntiAffinity")) -}}
{{- if eq .root.Values.podAntiAffinity "required" -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $apart)) -}}
{{- else if eq .root.Values.podAntiAffinity "preferred" -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $apart))) -}}
{{- end -}}
{{- end -}}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Argument: the value. "-" is no class: a volume that somebody made, and nobody provides another. */}}
{{- define "numoe.storageClass" -}}
{{- with . -}}
storageClassName: {{ ternary "" . (eq . "-") | quote }}
{{- end -}}
{{- end -}}

{{/*
  The weights volume. Arguments: root, readOnly. Where a Job fills it, no pod's volume is read-only, only the mounts are: kubelet gives a
  local volume its group for the first pod that comes, whichever that is, and for none if that one may not write.
*/}}
{{- define "numoe.weightsVolume" -}}
{{- $p := .root.Values.persistence -}}
{{- if eq $p.mode "hostPath" }}
- name: weights
  hostPath: {path: {{ $p.hostPath | quote }}, type: Directory}
{{- else if ne $p.mode "none" }}
- name: weights
  persistentVolumeClaim: {claimName: {{ include "numoe.claimName" .root | toYaml }}, readOnly: {{ and .readOnly (not (or .root.Values.download.enabled .root.Values.pack.enabled)) }}}
{{- end }}
{{- end -}}

{{- define "numoe.weightsMount" -}}
{{- if ne .root.Values.persistence.mode "none" }}
- {name: weights, mountPath: /models, readOnly: {{ .readOnly }}}
{{- end }}
{{- end -}}

{{/* Volumes of servers: weights, scripts, shared memory, scratch. */}}
{{- define "numoe.serverVolumes" -}}
{{- include "numoe.weightsVolume" (dict "root" . "readOnly" true) }}
- name: scripts
  configMap: {name: {{ include "numoe.scriptsName" . | toYaml }}, defaultMode: 0555}
- name: shm
  emptyDir: {medium: Memory, sizeLimit: {{ default (printf "%sMi" (include "numoe.sharedMemoryMiB" .)) .Values.sharedMemory.size | toYaml }}}
- name: sockets
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "numoe.serverMounts" -}}
{{- include "numoe.weightsMount" (dict "root" . "readOnly" true) }}
- {name: scripts, mountPath: /etc/numoe/scripts, readOnly: true}
- {name: shm, mountPath: /dev/shm}
- {name: sockets, mountPath: /run/numoe}
- {name: tmp, mountPath: /tmp}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Files that a server waits for before it starts, and how large what they end is; see files/start.sh. Arguments: root, packed. */}}
{{- define "numoe.waitEnv" -}}
{{- if .root.Values.download.enabled }}
- name: WAIT_FOR
  value: {{ include "numoe.literal" (printf "%s/READY" (include "numoe.modelPath" .root)) }}
- {name: WAIT_MIB, value: {{ mul (int .root.Values.model.sizeGiB) 1024 | quote }}}
{{- end }}
{{- if and .packed .root.Values.pack.enabled }}
- name: WAIT_FOR_PACKED
  value: {{ include "numoe.literal" (printf "%s/READY" (include "numoe.packedPath" .root)) }}
{{- end }}
{{- end -}}

{{/* A string of an argument or a variable as it is: quoted for YAML, and without a $(NAME) for Kubernetes to replace. */}}
{{- define "numoe.literal" -}}{{ . | replace "$" "$$" | quote }}{{- end -}}

{{/* --name=value for each of a map; true alone is a switch, false leaves it out. */}}
{{- define "numoe.flags" -}}
{{- range $name, $value := . }}
{{- if kindIs "bool" $value }}
{{- if $value }}
- --{{ $name }}
{{- end }}
{{- else }}
- {{ printf "--%s=%s" $name (ternary $value (toJson $value) (kindIs "string" $value)) | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "numoe.scripts" -}}
start.sh: |
  {{- .Files.Get "files/start.sh" | nindent 2 }}
pack.sh: |
  {{- .Files.Get "files/pack.sh" | nindent 2 }}
{{- end -}}
