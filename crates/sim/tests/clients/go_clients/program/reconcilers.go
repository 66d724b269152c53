package main

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const finalizer = "example.com/kept"

// Keeps a Secret beside every config map that is labelled, until both go.
type keeper struct {
	client.Client
	recorder record.EventRecorder
	// Which manager this is.
	name string
}

func (k *keeper) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var found corev1.ConfigMap
	if err := k.Get(ctx, request.NamespacedName, &found); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if found.Labels["kept"] != "true" {
		return ctrl.Result{}, nil
	}
	if !found.DeletionTimestamp.IsZero() {
		if !controllerutil.RemoveFinalizer(&found, finalizer) {
			return ctrl.Result{}, nil
		}
		k.recorder.Event(&found, corev1.EventTypeNormal, "LetGo", "nothing is kept any more")
		return ctrl.Result{}, client.IgnoreNotFound(k.Update(ctx, &found))
	}
	if controllerutil.AddFinalizer(&found, finalizer) {
		if err := k.Update(ctx, &found); err != nil {
			return ctrl.Result{}, err
		}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: found.Name, Namespace: found.Namespace}}
	done, err := controllerutil.CreateOrUpdate(ctx, k.Client, secret, func() error {
		secret.Data = map[string][]byte{"color": []byte(found.Data["color"])}
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, "kept-by", k.name)
		return controllerutil.SetControllerReference(&found, secret, k.Scheme())
	})
	if err == nil && done == controllerutil.OperationResultCreated {
		k.recorder.Eventf(&found, corev1.EventTypeNormal, "Kept", "kept by %s", k.name)
	}
	return ctrl.Result{}, err
}

// Says of the members of these checks that they have joined.
type joiner struct{ client.Client }

func (j *joiner) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if !strings.HasPrefix(request.Name, "go-managed") {
		return ctrl.Result{}, nil
	}
	var found MemberCluster
	if err := j.Get(ctx, request.NamespacedName, &found); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	joined := metav1.Condition{
		Type: "Joined", Status: metav1.ConditionTrue, Reason: "Tested", ObservedGeneration: found.Generation,
	}
	if meta.SetStatusCondition(&found.Status.Conditions, joined) {
		if err := j.Status().Update(ctx, &found); err != nil {
			return ctrl.Result{}, err
		}
	}
	label := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": memberClusters.GroupVersion().String(), "kind": "MemberCluster",
		"metadata": map[string]any{"name": found.Name, "labels": map[string]any{"joined": "yes"}},
	}}
	applied := client.ApplyConfigurationFromUnstructured(label)
	return ctrl.Result{}, j.Apply(ctx, applied, client.ForceOwnership, client.FieldOwner("joiner"))
}

// Says of the placements of these checks that they are scheduled; knows no types.
type scheduler struct{ client.Client }

func newPlacement() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(fleet("").GroupVersion().WithKind("ClusterResourcePlacement"))
	return object
}

func (s *scheduler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if !strings.HasPrefix(request.Name, "go-managed") {
		return ctrl.Result{}, nil
	}
	found := newPlacement()
	if err := s.Get(ctx, request.NamespacedName, found); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, has, _ := unstructured.NestedSlice(found.Object, "status", "conditions"); has {
		return ctrl.Result{}, nil
	}
	before := found.DeepCopy()
	condition := map[string]any{
		"type": "ClusterResourcePlacementScheduled", "status": "True", "reason": "Tested", "message": "",
		"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": found.GetGeneration(),
	}
	if err := unstructured.SetNestedSlice(found.Object, []any{condition}, "status", "conditions"); err != nil {
		return ctrl.Result{}, err
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return ctrl.Result{}, s.Status().Patch(ctx, found, patch)
}
