{{- /* A type by its name, and after it those of its fields' types that were not shown yet. */ -}}
{{- define "type" -}}
{{- $types := .types }}{{ $seen := .seen }}{{ $type := get .types .name -}}
{{- if and $type (not (hasKey $seen .name)) (hasPrefix "github.com/lockstep-dev/" $type.Package) -}}
{{- $_ := set $seen .name true }}
{{ if $type.GVK }}##{{ else }}###{{ end }} {{ .name }}

{{ regexReplaceAll "([^\n])\n([^\n])" $type.Doc "${1} ${2}" }}
{{ if and $type.References (not $type.GVK) }}
Used by
{{- range $i, $user := $type.SortedReferences }}{{ if $i }},{{ end }} {{ markdownRenderTypeLink $user }}{{ end }}.
{{ end }}
{{- if $type.EnumValues }}
| value | meaning |
| --- | --- |
{{ range $type.EnumValues -}}
| `{{ .Name }}` | {{ template "cell" (regexReplaceAll "^[A-Za-z]+ " .Doc "") }} |
{{ end -}}
{{ end -}}
{{ if $type.Fields }}
| field | type | meaning | default | has to be |
| --- | --- | --- | --- | --- |
{{ if $type.GVK -}}
| `apiVersion` | string | `{{ $type.GVK.Group }}/{{ $type.GVK.Version }}` | | *required* |
| `kind` | string | `{{ $type.GVK.Kind }}` | | *required* |
{{ end -}}
{{ range $type.Fields -}}
| `{{ .Name }}` | {{ markdownRenderType .Type }} | {{ if ne .Name "metadata" }}{{ template "cell" .Doc }}{{ end }} | {{ template "default" .Default }} | {{ template "bounds" .Validation }} |
{{ end -}}
{{ end -}}
{{ template "rules" $type }}
{{- range $type.Fields }}{{ $of := .Type -}}
{{- range until 2 }}{{ if has (int $of.Kind) (list 4 5) }}{{ $of = $of.UnderlyingType }}{{ end }}{{ end }}{{/* 4 is a pointer, 5 a slice */ -}}
{{- template "type" dict "name" $of.Name "types" $types "seen" $seen }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "cell" }}{{ regexReplaceAll "\\s+" . " " | trim | replace "|" "\\|" | replace "<" "&lt;" | replace "*" "\\*" }}{{ end -}}

{{- /* An empty object as a default says no more than the defaults of its fields. */ -}}
{{- define "default" -}}
{{- if hasPrefix "{ " . }}{{ with trimAll "{} " . }}`{{ "{" }}{{ regexReplaceAll "([a-zA-Z]+):" (. | replace " " ", ") "${1}: " }}{{ "}" }}`{{ end }}
{{- else if . }}`{{ . }}`{{ end -}}
{{- end -}}

{{- /* What is checked of a field alone, in words. Large numbers come as floating point. */ -}}
{{- define "bounds" -}}
{{- $bound := dict -}}
{{- range . -}}
{{- $part := regexSplit ": " . 2 }}{{ $value := last $part -}}
{{- if regexMatch "^[0-9.]+e[+][0-9]+$" $value }}{{ $value = toString (int64 (float64 $value)) }}{{ end -}}
{{- $_ := set $bound (first $part) $value -}}
{{- end -}}
{{- $said := list -}}
{{- if hasKey $bound "Required" }}{{ $said = append $said "*required*" }}{{ end -}}
{{- range $row := list (list "MinItems" "MaxItems" "%s items") (list "Minimum" "Maximum" "%s") (list "MinLength" "MaxLength" "%s characters")
  (list "items:Minimum" "items:Maximum" "each %s") (list "items:MinLength" "items:MaxLength" "each %s characters") -}}
{{- $low := get $bound (index $row 0) }}{{ $high := get $bound (index $row 1) }}{{ $range := "" -}}
{{- if and $low $high }}{{ $range = printf "%s to %s" $low $high -}}
{{- else if $low }}{{ $range = printf "%s or more" $low -}}
{{- else if $high }}{{ $range = printf "at most %s" $high }}{{ end -}}
{{- with $range }}{{ $said = append $said (printf (index $row 2) .) }}{{ end -}}
{{- end -}}
{{- with $bound.Pattern }}{{ $said = append $said (printf "like %s" .) }}{{ end -}}
{{- range $row := list (list "Enum" "one of %s") (list "items:Enum" "each one of %s") -}}
{{- with get $bound (first $row) }}{{ $said = append $said (printf (last $row) (. | trimAll "[]" | replace " " ", " | replace "*" "\\*")) }}{{ end -}}
{{- end -}}
{{- join "; " $said -}}
{{- end -}}

{{- /* The rules of a type and of its fields, by what the API server says where one is broken. Those of a field's own type stand there. */ -}}
{{- define "rules" -}}
{{- $said := list -}}
{{- range index .Markers "kubebuilder:validation:XValidation" }}{{ $said = append $said . }}{{ end -}}
{{- range .Fields }}{{ if not (hasPrefix "github.com/lockstep-dev/" .Type.Package) -}}
{{- range index .Markers "kubebuilder:validation:XValidation" }}{{ $said = append $said . }}{{ end }}{{ end }}{{ end -}}
{{- if $said }}
Rules:

{{ range $said -}}
- {{ with .Message }}{{ template "cell" . }}{{ else }}{{ template "told" .MessageExpression }}{{ end }}
{{ end -}}
{{ end -}}
{{- end -}}

{{- /* The texts of an expression, with … for what the object says between them. */ -}}
{{- define "told" -}}
{{- $texts := list -}}
{{- range splitList ".format(" . | first | splitList " + " }}{{ $texts = append $texts (ternary (trimAll "'" .) "…" (hasPrefix "'" .)) }}{{ end -}}
{{- template "cell" (regexReplaceAll "%[sd]" (join "" $texts) "…") -}}
{{- end -}}
