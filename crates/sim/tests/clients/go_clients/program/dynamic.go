package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

type untyped struct{ *bench }

// A resource of the fleet.
func fleet(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "placement.kubernetes-fleet.io", Version: "v1", Resource: resource}
}

// Custom kinds: those of the fleet, and one that is defined on the way.
func dynamicChecks(b *bench) []check {
	u := untyped{b}
	return []check{
		{"a placement is created, changed and read in another version", u.placement},
		{"its status is written by its own path", u.status},
		{"what its schema refuses is told by field", u.invalid},
		{"a strategic patch of it is a media type nobody reads", u.strategic},
		{"an apply of it conflicts with another owner", u.apply},
		{"a definition is installed by a typed client and serves its kind", u.definition},
		{"an unknown field is a warning, or an error where that is asked for", u.warnings},
		{"what is defined goes with its definition", u.withdrawn},
	}
}

func placement(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "placement.kubernetes-fleet.io/v1",
		"kind":       "ClusterResourcePlacement",
		"metadata":   map[string]any{"name": name},
		"spec": map[string]any{
			"resourceSelectors": []any{map[string]any{
				"group": "", "version": "v1", "kind": "Namespace", "name": "work",
			}},
			"policy": map[string]any{"placementType": "PickAll"},
		},
	}}
}

func (u untyped) placements() dynamic.NamespaceableResourceInterface {
	return u.dynamic.Resource(fleet("clusterresourceplacements"))
}

func (u untyped) placement(ctx context.Context) error {
	made, err := u.placements().Create(ctx, placement("go-dynamic"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(made.Object, int64(5), "spec", "revisionHistoryLimit"); err != nil {
		return err
	}
	changed, err := u.placements().Update(ctx, made, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	older := fleet("clusterresourceplacements")
	older.Version = "v1beta1"
	other, err := u.dynamic.Resource(older).Get(ctx, "go-dynamic", metav1.GetOptions{})
	if err != nil {
		return err
	}
	limit, _, _ := unstructured.NestedInt64(other.Object, "spec", "revisionHistoryLimit")
	return first(
		expect(made.GetGeneration() == 1 && changed.GetGeneration() == 2, "generation %d", changed.GetGeneration()),
		expect(other.GetAPIVersion() == "placement.kubernetes-fleet.io/v1beta1", "got %s", other.GetAPIVersion()),
		expect(limit == 5, "limit %d", limit),
	)
}

func (u untyped) status(ctx context.Context) error {
	found, err := u.placements().Get(ctx, "go-dynamic", metav1.GetOptions{})
	if err != nil {
		return err
	}
	condition := map[string]any{
		"type": "ClusterResourcePlacementScheduled", "status": "True", "reason": "Tested",
		"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": int64(2),
	}
	if err := unstructured.SetNestedSlice(found.Object, []any{condition}, "status", "conditions"); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(found.Object, int64(9), "spec", "revisionHistoryLimit"); err != nil {
		return err
	}
	written, err := u.placements().UpdateStatus(ctx, found, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(written.Object, "status", "conditions")
	limit, _, _ := unstructured.NestedInt64(written.Object, "spec", "revisionHistoryLimit")
	return first(
		expect(len(conditions) == 1, "%d conditions", len(conditions)),
		expect(limit == 5 && written.GetGeneration() == 2, "the spec was written, too"),
	)
}

func (u untyped) invalid(ctx context.Context) error {
	made := placement("go-invalid")
	if err := unstructured.SetNestedField(made.Object, "PickSome", "spec", "policy", "placementType"); err != nil {
		return err
	}
	_, err := u.placements().Create(ctx, made, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("got %v", err)
	}
	causes := err.(apierrors.APIStatus).Status().Details.Causes
	named := func(cause metav1.StatusCause) bool {
		return cause.Field == "spec.policy.placementType" && cause.Type == metav1.CauseTypeFieldValueNotSupported
	}
	return expect(slices.ContainsFunc(causes, named), "causes %v", causes)
}

func (u untyped) strategic(ctx context.Context) error {
	patch := []byte(`{"spec":{"revisionHistoryLimit":7}}`)
	_, err := u.placements().Patch(ctx, "go-dynamic", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if !apierrors.IsUnsupportedMediaType(err) {
		return fmt.Errorf("got %v", err)
	}
	_, err = u.placements().Patch(ctx, "go-dynamic", types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (u untyped) apply(ctx context.Context) error {
	wanted := placement("go-dynamic")
	if err := unstructured.SetNestedField(wanted.Object, int64(8), "spec", "revisionHistoryLimit"); err != nil {
		return err
	}
	_, refused := u.placements().Apply(ctx, "go-dynamic", wanted, metav1.ApplyOptions{FieldManager: "robot"})
	forced, err := u.placements().Apply(ctx, "go-dynamic", wanted, metav1.ApplyOptions{FieldManager: "robot", Force: true})
	if err != nil {
		return err
	}
	again, err := u.placements().Apply(ctx, "go-dynamic", wanted, metav1.ApplyOptions{FieldManager: "robot"})
	return first(
		err,
		expect(apierrors.IsConflict(refused), "another owner: %v", refused),
		expect(err != nil || again.GetResourceVersion() == forced.GetResourceVersion(), "applied again, it changed"),
		u.placements().Delete(ctx, "go-dynamic", metav1.DeleteOptions{}),
	)
}

var gadgets = schema.GroupVersionResource{Group: "example.go", Version: "v1", Resource: "gadgets"}

func (u untyped) definition(ctx context.Context) error {
	clients, err := apiextensions.NewForConfig(u.config)
	if err != nil {
		return err
	}
	spec := apiextensionsv1.JSONSchemaProps{
		Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"size": {
				Type: "integer", Format: "int32", Minimum: ptr.To(1.0), Maximum: ptr.To(10.0),
				Default: &apiextensionsv1.JSON{Raw: []byte("3")},
			},
			"share": {XIntOrString: true},
			"names": {
				Type: "array", XListType: ptr.To("set"),
				Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}},
			},
			"notes": {
				Type:                 "object",
				AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}},
			},
		},
		XValidations: apiextensionsv1.ValidationRules{{Rule: "self.size != 7", Message: "not seven"}},
	}
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets.example.go"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.go", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Gadget", ShortNames: []string{"gg"}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
	all := clients.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := all.Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		return err
	}
	err = eventually(ctx, "the definition is established", func(ctx context.Context) (bool, error) {
		found, err := all.Get(ctx, "gadgets.example.go", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(found.Status.Conditions, func(one apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return one.Type == apiextensionsv1.Established && one.Status == apiextensionsv1.ConditionTrue
		}), nil
	})
	if err != nil {
		return err
	}
	made := gadget("one", map[string]any{"share": "25%", "names": []any{"a", "b"}, "notes": map[string]any{"x": "y"}})
	// Being established is not yet being served everywhere.
	var found *unstructured.Unstructured
	err = eventually(ctx, "the kind is served", func(ctx context.Context) (bool, error) {
		found, err = u.gadgets().Create(ctx, made, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return err
	}
	size, _, _ := unstructured.NestedInt64(found.Object, "spec", "size")
	_, seven := u.gadgets().Create(ctx, gadget("seven", map[string]any{"size": int64(7)}), metav1.CreateOptions{})
	_, eleven := u.gadgets().Create(ctx, gadget("eleven", map[string]any{"size": int64(11)}), metav1.CreateOptions{})
	_, twice := u.gadgets().Create(ctx, gadget("twice", map[string]any{"names": []any{"a", "a"}}), metav1.CreateOptions{})
	return first(
		expect(size == 3, "no default: %d", size),
		expect(apierrors.IsInvalid(seven) && strings.Contains(seven.Error(), "not seven"), "seven: %v", seven),
		expect(apierrors.IsInvalid(eleven), "eleven: %v", eleven),
		expect(apierrors.IsInvalid(twice), "twice: %v", twice),
	)
}

func (u untyped) gadgets() dynamic.ResourceInterface {
	return u.dynamic.Resource(gadgets).Namespace(u.namespace)
}

func gadget(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.go/v1", "kind": "Gadget",
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// Keeps what the server warned of.
type warned struct {
	lock sync.Mutex
	said []string
}

func (w *warned) HandleWarningHeader(_ int, _ string, text string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.said = append(w.said, text)
}

func (u untyped) warnings(ctx context.Context) error {
	heard := &warned{}
	config := rest.CopyConfig(u.config)
	config.WarningHandler = heard
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	odd := gadget("odd", map[string]any{"colour": "red"})
	all := client.Resource(gadgets).Namespace(u.namespace)
	_, strict := all.Create(ctx, odd, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	_, err = all.Create(ctx, odd, metav1.CreateOptions{FieldValidation: metav1.FieldValidationWarn})
	return first(
		err,
		expect(apierrors.IsBadRequest(strict), "strict: %v", strict),
		expect(slices.Equal(heard.said, []string{`unknown field "spec.colour"`}), "heard %v", heard.said),
	)
}

func (u untyped) withdrawn(ctx context.Context) error {
	clients, err := apiextensions.NewForConfig(u.config)
	if err != nil {
		return err
	}
	all := clients.ApiextensionsV1().CustomResourceDefinitions()
	if err := all.Delete(ctx, "gadgets.example.go", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return eventually(ctx, "the kind is gone", func(ctx context.Context) (bool, error) {
		_, definition := all.Get(ctx, "gadgets.example.go", metav1.GetOptions{})
		_, objects := u.gadgets().List(ctx, metav1.ListOptions{})
		return apierrors.IsNotFound(definition) && apierrors.IsNotFound(objects), nil
	})
}
