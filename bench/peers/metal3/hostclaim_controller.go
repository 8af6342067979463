// The loop around the operator's own choice of a host for a claim.
//
// The release that is built has the choice and the bind (pkg/hostclaim), but its controller does nothing. This file stands in
// for that controller: for each claim it calls the release's Associate and stores what it left on the claim, with the helper of
// Cluster API that the rest of Metal3 stores objects with. Claims that are bound or deleted are left alone, hosts are not
// watched, and no condition is summed up: whatever could be left out is left out, in favour of the operator.

package controllers

import (
	"context"
	"fmt"
	"os"
	"strconv"

	metal3api "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/metal3-io/baremetal-operator/pkg/hostclaim"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/patch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// WorkersVariable names how many claims are served at a time; one unless it is set.
const WorkersVariable = "HOSTCLAIM_WORKERS"

// HostClaimReconciler binds claims to hosts.
type HostClaimReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// Reconcile binds one claim.
func (r *HostClaimReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	claim := &metal3api.HostClaim{}
	if err := r.Get(ctx, request.NamespacedName, claim); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if claim.Status.BareMetalHost != nil || !claim.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	stored, err := patch.NewHelper(claim, r.Client)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("preparing to store the claim: %w", err)
	}
	manager, err := hostclaim.NewHostManager(r.Client, ctrl.LoggerFrom(ctx), claim, nil)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("looking at the claim: %w", err)
	}
	controllerutil.AddFinalizer(claim, metal3api.HostClaimFinalizer)
	refused := manager.Associate(ctx)
	owned := patch.WithOwnedConditions{Conditions: []string{metal3api.AssociatedCondition}}
	if err := stored.Patch(ctx, claim, owned); err != nil {
		return ctrl.Result{}, fmt.Errorf("storing the claim: %w", err)
	}
	if later, after := hostclaim.IsRequeueAfterError(refused); later {
		return ctrl.Result{RequeueAfter: after}, nil
	}
	return ctrl.Result{}, refused
}

// SetupWithManager makes it a controller.
func (r *HostClaimReconciler) SetupWithManager(manager ctrl.Manager) error {
	workers := 1
	if text := os.Getenv(WorkersVariable); text != "" {
		number, err := strconv.Atoi(text)
		if err != nil || number < 1 {
			return fmt.Errorf("%s is %q and not a number of workers", WorkersVariable, text)
		}
		workers = number
	}
	return ctrl.NewControllerManagedBy(manager).
		For(&metal3api.HostClaim{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}
