// What solid robots leave on level ground: their bodies again, pressed flat straight down. It tells how high
// something is, at little cost: there is no map of shadows to draw first.

import {
    DoubleSide,
    EqualStencilFunc,
    Group,
    IncrementStencilOp,
    InstancedMesh,
    Matrix4,
    MeshBasicMaterial,
    Vector3,
} from "three";

export class Shadow {
    // @param ground  Matrix4 of a frame whose plane z = 0 is the ground
    // @param opacity  0 to 1
    constructor(ground, opacity) {
        this.root = new Group();
        this.pairs = [];
        // Where shadows lie on one another it is no darker: each pixel is taken once.
        this.material = new MeshBasicMaterial({
            color: 0x000000,
            transparent: true,
            opacity,
            depthWrite: false,
            polygonOffset: true,
            polygonOffsetFactor: -1,
            polygonOffsetUnits: -4,
            side: DoubleSide,
            forceSinglePass: true,
            stencilWrite: true,
            stencilFunc: EqualStencilFunc,
            stencilRef: 0,
            stencilZPass: IncrementStencilOp,
        });
        const normal = new Vector3().setFromMatrixColumn(ground, 2);
        const { x, y, z } = normal;
        const height = normal.dot(new Vector3().setFromMatrixPosition(ground));
        this.flat = new Matrix4().set(
            1 - x * x, -x * y, -x * z, x * height,
            -x * y, 1 - y * y, -y * z, y * height,
            -x * z, -y * z, 1 - z * z, z * height,
            0, 0, 0, 1);
    }

    add(robot) {
        const root = new Group();
        root.matrixAutoUpdate = false;
        for (const { mesh: body } of robot.bodies) {
            const mesh = new InstancedMesh(body.geometry, this.material, body.count);
            mesh.instanceMatrix = body.instanceMatrix; // in the same places
            mesh.frustumCulled = false;
            mesh.renderOrder = -0.5; // between the ground and ghosts
            root.add(mesh);
        }
        this.pairs.push({ robot, root });
        this.root.add(root);
    }

    update() {
        for (const { robot, root } of this.pairs) {
            root.visible = robot.seen;
            root.matrix.multiplyMatrices(this.flat, robot.root.matrix);
            root.matrixWorldNeedsUpdate = true;
        }
    }

    dispose() {
        this.material.dispose();
        for (const { root } of this.pairs) for (const mesh of root.children) mesh.dispose();
    }
}
