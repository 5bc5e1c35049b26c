{{/* What all pods have in common. */}}

{{/* User and group numbers that are null are left out, so that OpenShift chooses them from the namespace's range. */}}
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

{{/* The head of every pod's spec. Service links are off, because a Service called numoe would set NUMOE_PORT, which the daemons read as a flag. */}}
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

{{/* On which nodes pods run. Arguments: root, component, nodeSelector, tolerations, affinity, spread (whether pods of the component avoid the same node). */}}
{{- define "numoe.placement" -}}
{{- /* The image's programs run only on these. */}}
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

{{/* The storage class of a claim. "-" means the empty class, for a volume that exists already. Argument: the value. */}}
{{- define "numoe.storageClass" -}}
{{- with . -}}
storageClassName: {{ ternary "" . (eq . "-") | quote }}
{{- end -}}
{{- end -}}

{{/*
  The weights volume. If a Job fills it, the volume is not read-only in any pod, only the mounts are: the kubelet sets the group of a
  local volume for the first pod that uses it, whichever that is, and not at all if that pod may not write. Arguments: root, readOnly.
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

{{/* The volumes of servers: weights, scripts, shared memory, sockets, temporary files. */}}
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

{{/* The files for which a server waits before it starts, and the size of the model that they mark as complete; see files/start.sh. Arguments: root, packed (whether it waits for packed weights). */}}
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

{{/* A string for an argument or a variable that is taken literally: quoted for YAML, and with $ escaped, so that Kubernetes replaces no $(NAME). */}}
{{- define "numoe.literal" -}}{{ . | replace "$" "$$" | quote }}{{- end -}}

{{/* A flag --name=value for each entry of a map; true gives --name alone, false leaves the flag out. */}}
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
