{{- define "gvList" -}}
# API reference

Every field of the group `lockstep.dev`, from the Go types in [v1alpha1](v1alpha1): `make manifests` writes this page. What the fields are for
is told in [the guide to the API](README.md), in [restart policies](../docs/policies.md) and in [health](../health/README.md).

A field is optional unless it says *required*. A default is what the API server fills in; where a description names one, it applies
although the field stays empty. The rules of a type are checked when an object is created or changed, and are told in the words of the
error; … stands for what the object says there. `kubectl explain tj.spec` shows the same descriptions in a terminal.
{{ range . }}{{ template "groupVersion" . }}{{ end }}
{{- end -}}

{{- define "groupVersion" }}
## Kinds of {{ .GroupVersionString }}
{{ $gv := . }}{{ $kinds := reverse .SortedKinds }}{{ range $kinds }}
- {{ $gv.TypeForKind . | markdownRenderTypeLink }}
{{- end }}
{{ $types := dict }}{{ range .SortedTypes }}{{ if has (int .Kind) (list 0 6) }}{{ $_ := set $types .Name . }}{{ end }}{{ end }}
{{- $seen := dict }}{{/* 0 is an alias, 6 a struct */}}
{{- range $kinds }}{{ template "type" dict "name" . "types" $types "seen" $seen }}{{ end }}
{{- end -}}
