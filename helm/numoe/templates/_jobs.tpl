{{/* The specs of the Jobs that fill the weights volume. A Job's name contains a hash of its rendered spec: even one more empty line makes another Job. */}}

{{/* Which failures are tried again: exit code 2 means that another try would fail too. Arguments: component, job (its values). */}}
{{- define "numoe.jobHead" -}}
backoffLimit: {{ .job.backoffLimit }}
activeDeadlineSeconds: {{ .job.activeDeadlineSeconds }}
{{- with .job.ttlSecondsAfterFinished }}
ttlSecondsAfterFinished: {{ . }}
{{- end }}
podFailurePolicy:
  rules:
    - action: Ignore
      onPodConditions: [{type: DisruptionTarget, status: "True"}]
    - action: FailJob
      onExitCodes: {containerName: {{ .component }}, operator: In, values: [2]}
{{- end -}}

{{/*
  The affinity of a Job's pod. It may run where the hosts may, because the first pod decides on which node a local volume is stored. A volume
  that one node has (not ReadWriteMany) has a single host, and the Job follows that host to its node: on another node it would wait for the
  volume that the host has, and the host would wait for the Job. Argument: root.
*/}}
{{- define "numoe.jobAffinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- $shared := and (ne .Values.persistence.mode "hostPath") (has "ReadWriteMany" .Values.persistence.accessModes) -}}
{{- if not (or $shared (include "numoe.hostsMany" .)) -}}
{{- $labels := include "numoe.selector" (dict "root" . "component" "host") | fromYaml -}}
{{- $beside := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" $labels) -}}
{{- $key := "requiredDuringSchedulingIgnoredDuringExecution" -}}
{{- $own := default dict $affinity.podAffinity -}}
{{- $_ := set $affinity "podAffinity" (set $own $key (append (default list (get $own $key)) $beside)) -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}

{{/* A Job's pod without its containers. Arguments: root, component. */}}
{{- define "numoe.jobPod" -}}
metadata:
  labels:
    {{- include "numoe.podLabels" . | nindent 4 }}
  {{- with .root.Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  restartPolicy: Never
  {{- include "numoe.podHead" .root | nindent 2 }}
  {{- include "numoe.placement" (dict "root" .root "component" .component "nodeSelector" .root.Values.nodeSelector "tolerations" .root.Values.tolerations "affinity" (include "numoe.jobAffinity" .root | fromYaml) "spread" false) | nindent 2 }}
  volumes:
    {{- include "numoe.weightsVolume" (dict "root" .root "readOnly" false) | nindent 4 }}
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    {{- if and (eq .component "download") .root.Values.download.tokenSecret.name }}
    - name: token
      secret: {secretName: {{ toYaml .root.Values.download.tokenSecret.name }}, defaultMode: 0440}
    {{- end }}
    {{- if eq .component "download" }}
    {{- with .root.Values.download.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- end }}
    {{- if eq .component "pack" }}
    - name: scripts
      configMap: {name: {{ include "numoe.scriptsName" .root | toYaml }}, defaultMode: 0555}
    {{- end }}
{{- end -}}

{{- define "numoe.downloadSpec" -}}
{{- $d := .Values.download -}}
{{ include "numoe.jobHead" (dict "component" "download" "job" $d) }}
template:
  {{- include "numoe.jobPod" (dict "root" . "component" "download") | nindent 2 }}
    containers:
      - name: download
        image: {{ include "numoe.image" (dict "root" . "gpu" false) }}
        imagePullPolicy: {{ .Values.image.pullPolicy }}
        command: [numoe-download]
        args:
          - {{ include "numoe.literal" (printf "--repo=%s" .Values.model.repository) }}
          - {{ include "numoe.literal" (printf "--revision=%s" .Values.model.revision) }}
          - '--source={{ .Values.model.source }}'
          {{- with .Values.model.endpoint }}
          - {{ include "numoe.literal" (printf "--endpoint=%s" .) }}
          {{- end }}
          - {{ include "numoe.literal" (printf "--to=%s" (include "numoe.modelPath" .)) }}
          - '--stall-seconds={{ $d.stallSeconds }}'
          {{- if $d.tokenSecret.name }}
          - --token-file=/etc/numoe/token/{{ $d.tokenSecret.key }}
          {{- end }}
        {{- with $d.extraEnv }}
        env:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        resources:
          {{- toYaml $d.resources | nindent 10 }}
        securityContext:
          {{- include "numoe.containerSecurity" . | nindent 10 }}
        volumeMounts:
          {{- include "numoe.weightsMount" (dict "root" . "readOnly" false) | nindent 10 }}
          - {name: tmp, mountPath: /tmp}
          {{- if $d.tokenSecret.name }}
          - {name: token, mountPath: /etc/numoe/token, readOnly: true}
          {{- end }}
          {{- with $d.extraVolumeMounts }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
{{- end -}}

{{- define "numoe.packSpec" -}}
{{- $p := .Values.pack -}}
{{- $out := include "numoe.packedPath" . -}}
{{ include "numoe.jobHead" (dict "component" "pack" "job" $p) }}
template:
  {{- include "numoe.jobPod" (dict "root" . "component" "pack") | nindent 2 }}
    containers:
      - name: pack
        image: {{ include "numoe.image" (dict "root" . "gpu" false) }}
        imagePullPolicy: {{ .Values.image.pullPolicy }}
        command: [/bin/sh, /etc/numoe/scripts/start.sh, /bin/sh, /etc/numoe/scripts/pack.sh]
        args:
          - {{ include "numoe.literal" (include "numoe.modelPath" .) }}
          - {{ include "numoe.literal" $out }}
          - {{ $p.format }}
          - {{ include "numoe.slice" . }}
          - {{ include "numoe.workerTotal" . | quote }}
        {{- with include "numoe.waitEnv" (dict "root" . "packed" false) | trim }}
        env:
          {{- . | nindent 10 }}
        {{- end }}
        resources:
          {{- toYaml $p.resources | nindent 10 }}
        securityContext:
          {{- include "numoe.containerSecurity" . | nindent 10 }}
        volumeMounts:
          {{- include "numoe.weightsMount" (dict "root" . "readOnly" false) | nindent 10 }}
          - {name: tmp, mountPath: /tmp}
          - {name: scripts, mountPath: /etc/numoe/scripts, readOnly: true}
{{- end -}}
