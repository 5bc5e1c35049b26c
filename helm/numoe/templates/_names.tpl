{{/* Names and labels. */}}

{{/* 40 characters: StatefulSets put a hash of 10 and pods a number behind it, and labels hold 63. */}}
{{- define "numoe.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "numoe.workersName" -}}{{ include "numoe.fullname" . }}-workers{{- end -}}
{{- define "numoe.routerName" -}}{{ include "numoe.fullname" . }}-router{{- end -}}
{{- define "numoe.pickerName" -}}{{ include "numoe.fullname" . }}-picker{{- end -}}
{{- define "numoe.scriptsName" -}}{{ include "numoe.fullname" . }}-scripts{{- end -}}

{{- define "numoe.claimName" -}}
{{- if eq .Values.persistence.mode "existing" }}{{ .Values.persistence.existingClaim }}{{ else }}{{ include "numoe.fullname" . }}-weights{{ end -}}
{{- end -}}

{{- define "numoe.heatName" -}}{{ include "numoe.fullname" . }}-heat{{- end -}}

{{- define "numoe.serviceAccountName" -}}
{{- default (ternary (include "numoe.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "numoe.tlsSecretName" -}}
{{- default (printf "%s-tls" (include "numoe.fullname" .)) .Values.tls.secretName -}}
{{- end -}}

{{/* The Secrets of mutual TLS. */}}
{{- define "numoe.workerTlsSecretName" -}}
{{- default (printf "%s-mtls" (include "numoe.workersName" .)) .Values.mtls.workerSecretName -}}
{{- end -}}
{{- define "numoe.coordinatorTlsSecretName" -}}
{{- default (printf "%s-mtls" (include "numoe.fullname" .)) .Values.mtls.coordinatorSecretName -}}
{{- end -}}

{{/* What selectors use: never changes within a release. Arguments: root, component. */}}
{{- define "numoe.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | trunc 63 }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "numoe.labels" -}}
{{ include "numoe.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Of a pod template. Without the chart's version: a new one alone must not restart what took half an hour to load. */}}
{{- define "numoe.podLabels" -}}
{{ include "numoe.selector" . }}
{{- with .root.Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Head of an object's metadata, to which labels may be added. Arguments: root, component, name, annotations (of this object; none: {}). */}}
{{- define "numoe.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
{{- with merge (dict) (default dict .annotations) .root.Values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- include "numoe.labels" . | nindent 2 }}
{{- end -}}

{{/*
  The image. global.imageRegistry, which charts share, takes the place of the repository's own registry. Arguments: root, gpu
  (whether the pod has GPUs: its image has the CUDA device, and is six times as large).
*/}}
{{- define "numoe.image" -}}
{{- $image := .root.Values.image -}}
{{- $repository := $image.repository -}}
{{- with get (default dict .root.Values.global) "imageRegistry" -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $repository "") -}}
{{- end -}}
{{- $tag := default .root.Chart.AppVersion $image.tag -}}
{{- $digest := $image.digest -}}
{{- if .gpu -}}
{{- $tag = default (printf "%s-cuda" (trimSuffix "-cuda" $tag)) $image.cuda.tag -}}
{{- $digest = $image.cuda.digest -}}
{{- end -}}
{{- if $digest }}{{ $repository }}@{{ $digest }}{{ else }}{{ $repository }}:{{ $tag }}{{ end -}}
{{- end -}}

{{- define "numoe.gpuPod" -}}{{ if gt (int .Values.coordinator.gpu.count) 0 }}true{{ end }}{{- end -}}

{{/* Directory of the model: absolute. A / at its end is none. */}}
{{- define "numoe.modelPath" -}}
{{- $directory := trimSuffix "/" .Values.model.directory -}}
{{- if and (not $directory) .Values.model.repository -}}
{{- $directory = base .Values.model.repository | lower -}}
{{- if regexMatch "^[0-9a-f]{40}$" .Values.model.revision }}{{ $directory = printf "%s-%s" $directory (trunc 8 .Values.model.revision) }}{{ end -}}
{{- end -}}
{{- ternary $directory (printf "/models/%s" $directory) (hasPrefix "/" $directory) -}}
{{- end -}}

{{- define "numoe.packedPath" -}}
{{ include "numoe.modelPath" . }}-{{ .Values.pack.format }}-{{ include "numoe.slice" . }}-{{ include "numoe.workerTotal" . }}
{{- end -}}
