{{/* What all pods have in common. */}}

{{- define "numoe.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.podSecurity.runAsUser }}
runAsGroup: {{ .Values.podSecurity.runAsGroup }}
fsGroup: {{ .Values.podSecurity.fsGroup }}
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
serviceAccountName: {{ include "numoe.serviceAccountName" . }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- include "numoe.podSecurity" . | nindent 2 }}
{{- end -}}

{{/* Where pods go. Arguments: root, component, nodeSelector, tolerations, affinity, spread (they keep apart). */}}
{{- define "numoe.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
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

{{/* The weights volume. Arguments: root, readOnly. */}}
{{- define "numoe.weightsVolume" -}}
{{- $p := .root.Values.persistence -}}
{{- if eq $p.mode "hostPath" }}
- name: weights
  hostPath: {path: {{ $p.hostPath }}, type: Directory}
{{- else if ne $p.mode "none" }}
- name: weights
  persistentVolumeClaim: {claimName: {{ include "numoe.claimName" .root }}, readOnly: {{ .readOnly }}}
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
  configMap: {name: {{ include "numoe.scriptsName" . }}, defaultMode: 0555}
- name: shm
  emptyDir: {medium: Memory, sizeLimit: {{ default (printf "%sMi" (include "numoe.sharedMemoryMiB" .)) .Values.sharedMemory.size }}}
- name: sockets
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- end -}}

{{- define "numoe.serverMounts" -}}
{{- include "numoe.weightsMount" (dict "root" . "readOnly" true) }}
- {name: scripts, mountPath: /etc/numoe/scripts, readOnly: true}
- {name: shm, mountPath: /dev/shm}
- {name: sockets, mountPath: /run/numoe}
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{/* Files that a server waits for before it starts, and how large what they end is; see files/start.sh. Arguments: root, packed. */}}
{{- define "numoe.waitEnv" -}}
{{- if .root.Values.download.enabled }}
- {name: WAIT_FOR, value: {{ include "numoe.modelPath" .root }}/READY}
- {name: WAIT_MIB, value: {{ mul (int .root.Values.model.sizeGiB) 1024 | quote }}}
{{- end }}
{{- if and .packed .root.Values.pack.enabled }}
- {name: WAIT_FOR_PACKED, value: {{ include "numoe.packedPath" .root }}/READY}
{{- end }}
{{- end -}}

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
{{- end -}}
