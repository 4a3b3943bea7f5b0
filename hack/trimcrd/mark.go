package main

// labels are those of all objects of an installation. `bongsu uninstall` selects by part-of.
var labels = map[string]string{"app.kubernetes.io/name": "bongsu", "app.kubernetes.io/part-of": "bongsu"}

// annotations keep Argo CD from deleting a CRD, when it is no longer in Git or its Application
// is deleted: https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/. All objects of
// the kind would be deleted, too.
var annotations = map[string]string{"argocd.argoproj.io/sync-options": "Prune=false,Delete=false"}

// mark sets the labels and annotations of a CRD. It reports whether the document is one.
func mark(crd map[string]any) bool {
	metadata, _ := crd["metadata"].(map[string]any)
	if crd["kind"] != "CustomResourceDefinition" || metadata == nil {
		return false
	}
	for field, values := range map[string]map[string]string{"labels": labels, "annotations": annotations} {
		set, _ := metadata[field].(map[string]any)
		if set == nil {
			set = map[string]any{}
			metadata[field] = set
		}
		for key, value := range values {
			set[key] = value
		}
	}
	return true
}
