{{/*
The reference of the image of a program, manager, agent or supervisors, with the chart's appVersion where it has no tag. There is no default repository:
a name without a registry is one of docker.io, where anybody may have registered it.
*/}}
{{- define "lockstep.image" -}}
{{- $image := (index .root.Values .program).image -}}
{{- $message := printf "set %s.image.repository to the repository in your registry that has the image: docs/operators.md says how it is built" .program -}}
{{- $repository := required $message $image.repository -}}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ $image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "lockstep.pullSecrets" -}}
{{- with .Values.imagePullSecrets -}}
imagePullSecrets: {{ range . }}
- name: {{ . }}
{{- end }}
{{- end -}}
{{- end -}}
