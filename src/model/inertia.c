// Which inertias a rigid body can have, and the nearest one to an inertia that it cannot.
//
// The inertia of a body with density rho >= 0 about its centre of mass is I = tr(S) 1 - S, where
// S = integral of rho x x' is positive semidefinite; conversely S = tr(I)/2 1 - I. With the
// principal moments a <= b <= c the eigenvalues of S are (b+c-a)/2, (a+c-b)/2, (a+b-c)/2, so S >= 0
// says that no moment is larger than the sum of the other two; that they are not negative follows.

#include "model/model_data.h"
#include "model/pose.h"

#include <math.h>

// Relative to the largest moment: files round their numbers to six digits or so, and a thin rod or
// plate lies exactly on the border.
static const double tolerance = 1e-6;

// Jacobi's method: rotations that each make one off-diagonal entry vanish. It converges
// quadratically; five sweeps do for 3 x 3, the bound only guards against numbers that are not
// finite.
void nsi_inertia_eigen(const double inertia[6], double values[3], double vectors[9]) {
    double a[3][3] = {{inertia[0], inertia[3], inertia[4]},
                      {inertia[3], inertia[1], inertia[5]},
                      {inertia[4], inertia[5], inertia[2]}};
    double v[3][3] = {{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}};

    for (int sweep = 0; sweep < 50; sweep++) {
        if (fabs(a[0][1]) + fabs(a[0][2]) + fabs(a[1][2]) == 0.0) break;
        for (int p = 0; p < 2; p++) {
            for (int q = p + 1; q < 3; q++) {
                // Too small to change the diagonal: done with it.
                double size = fabs(a[p][p]) + fabs(a[q][q]);
                if (size + fabs(a[p][q]) == size) {
                    a[p][q] = a[q][p] = 0.0;
                    continue;
                }
                // tan of the angle, the smaller of the two solutions (Golub & Van Loan, 8.5.2).
                double theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                double t = copysign(1.0, theta) / (fabs(theta) + hypot(1.0, theta));
                double c = 1.0 / sqrt(1.0 + t * t), s = t * c;
                double apq = a[p][q];
                a[p][p] -= t * apq;
                a[q][q] += t * apq;
                a[p][q] = a[q][p] = 0.0;
                int r = 3 - p - q;
                double arp = a[r][p], arq = a[r][q];
                a[r][p] = a[p][r] = c * arp - s * arq;
                a[r][q] = a[q][r] = s * arp + c * arq;
                for (int i = 0; i < 3; i++) {
                    double vip = v[i][p], viq = v[i][q];
                    v[i][p] = c * vip - s * viq;
                    v[i][q] = s * vip + c * viq;
                }
            }
        }
    }

    // Ascending.
    int order[3] = {0, 1, 2};
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2 - i; j++) {
            if (a[order[j]][order[j]] > a[order[j + 1]][order[j + 1]]) {
                int swap = order[j];
                order[j] = order[j + 1];
                order[j + 1] = swap;
            }
        }
    }
    for (int k = 0; k < 3; k++) {
        values[k] = a[order[k]][order[k]];
        for (int i = 0; i < 3; i++) vectors[3 * i + k] = v[i][order[k]];
    }
}

const char* nsi_inertia_fault(double mass, const double inertia[6]) {
    bool zero = true;
    for (int i = 0; i < 6; i++) {
        if (!isfinite(inertia[i])) return "is not finite";
        zero = zero && inertia[i] == 0.0;
    }
    if (zero) return NULL;
    if (mass == 0.0) return "is not zero but the mass is";

    double moments[3], axes[9];
    nsi_inertia_eigen(inertia, moments, axes);
    double slack = tolerance * fmax(fabs(moments[0]), fabs(moments[2]));
    if (moments[0] < -slack) return "has a negative principal moment";
    if (moments[0] + moments[1] < moments[2] - slack) {
        return "has a principal moment larger than the sum of the other two";
    }
    return NULL;
}

// The nearest S >= 0 to a symmetric S (Frobenius norm) has the negative eigenvalues set to zero,
// and each of those raises two principal moments.
void nsi_inertia_repair(double mass, double inertia[6]) {
    if (mass == 0.0) {
        for (int i = 0; i < 6; i++) inertia[i] = 0.0;
        return;
    }
    double moments[3], axes[9], s[3];
    nsi_inertia_eigen(inertia, moments, axes);
    double half = 0.5 * (moments[0] + moments[1] + moments[2]);
    for (int k = 0; k < 3; k++) s[k] = fmax(0.0, half - moments[k]);

    for (int i = 0; i < 6; i++) inertia[i] = 0.0;
    static const int row[6] = {0, 1, 2, 0, 0, 1}, column[6] = {0, 1, 2, 1, 2, 2};
    for (int k = 0; k < 3; k++) {
        double moment = s[0] + s[1] + s[2] - s[k];
        for (int i = 0; i < 6; i++) {
            inertia[i] += moment * axes[3 * row[i] + k] * axes[3 * column[i] + k];
        }
    }
}

// Back to the fixed entries, by the least change of S = tr(I)/2 - I (Frobenius norm). Products are
// entries of S; the fixed moments I_i = S_j + S_k are equations A s = b of its diagonal, with
// (A A')^-1 = 1 - 11' / (n + 1).
static void restore_entries(const double given[6], const bool movable[6], double inertia[6]) {
    double missing[3] = {0.0}, sum = 0.0, change[3], total = 0.0;
    int fixed = 0;
    for (int i = 0; i < 6; i++) {
        if (movable[i]) continue;
        if (i >= 3) inertia[i] = given[i];
        if (i >= 3) continue;
        missing[i] = given[i] - inertia[i];
        sum += missing[i];
        fixed++;
    }

    // The change of the diagonal of S, A' (A A')^-1 of what is missing, and that of the moments.
    for (int i = 0; i < 3; i++) missing[i] -= movable[i] ? 0.0 : sum / (fixed + 1);
    sum = missing[0] + missing[1] + missing[2];
    for (int i = 0; i < 3; i++) total += change[i] = sum - missing[i];
    for (int i = 0; i < 3; i++) {
        inertia[i] = movable[i] ? inertia[i] + total - change[i] : given[i];
    }
}

// Alternating projections: onto the inertias that are physical, and onto those with the fixed entries.
bool nsi_inertia_complete(double mass, double inertia[6], const bool movable[6]) {
    enum { MAX_PROJECTIONS = 200 };
    double given[6];
    bool any = false;
    for (int i = 0; i < 6; i++) {
        any = any || movable[i];
        given[i] = inertia[i];
        if (!isfinite(inertia[i])) return false;
    }
    for (int k = 0; k < MAX_PROJECTIONS; k++) {
        if (!nsi_inertia_fault(mass, inertia)) return true;
        if (!any || !(mass > 0.0)) return false;
        nsi_inertia_repair(mass, inertia);
        restore_entries(given, movable, inertia);
    }
    return false;
}

void nsi_inertia_rotate(const double quaternion[4], const double inertia[6], double out[6]) {
    double r[9];
    nsi_quat_to_matrix(quaternion, r);
    double a[3][3] = {{inertia[0], inertia[3], inertia[4]},
                      {inertia[3], inertia[1], inertia[5]},
                      {inertia[4], inertia[5], inertia[2]}};
    double ra[3][3];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            ra[i][j] = r[3 * i] * a[0][j] + r[3 * i + 1] * a[1][j] + r[3 * i + 2] * a[2][j];
        }
    }
    static const int row[6] = {0, 1, 2, 0, 0, 1}, column[6] = {0, 1, 2, 1, 2, 2};
    for (int k = 0; k < 6; k++) {
        const double* left = ra[row[k]];
        const double* right = r + 3 * column[k];
        out[k] = left[0] * right[0] + left[1] * right[1] + left[2] * right[2];
    }
}

void nsi_inertia_shift(double mass, const double offset[3], double inertia[6]) {
    double x = offset[0], y = offset[1], z = offset[2];
    inertia[0] += mass * (y * y + z * z);
    inertia[1] += mass * (x * x + z * z);
    inertia[2] += mass * (x * x + y * y);
    inertia[3] -= mass * x * y;
    inertia[4] -= mass * x * z;
    inertia[5] -= mass * y * z;
}
