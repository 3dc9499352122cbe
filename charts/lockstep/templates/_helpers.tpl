{{/* The reference of an image: of .image, with the chart's appVersion where it has no tag. */}}
{{- define "lockstep.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "lockstep.pullSecrets" -}}
{{- with .Values.imagePullSecrets -}}
imagePullSecrets: {{ range . }}
- name: {{ . }}
{{- end }}
{{- end -}}
{{- end -}}
