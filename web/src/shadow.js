// What solid robots leave on level ground: each of their meshes again, pressed flat straight down. It tells
// how high something is, at little cost: there is no map of shadows to draw first.

import {
    DoubleSide,
    EqualStencilFunc,
    Group,
    IncrementStencilOp,
    Matrix4,
    Mesh,
    MeshBasicMaterial,
    Vector3,
} from "three";

export class Shadow {
    // @param ground  a Group whose plane z = 0 is the ground
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
        ground.updateMatrix();
        const normal = new Vector3().setFromMatrixColumn(ground.matrix, 2);
        const { x, y, z } = normal;
        const height = normal.dot(ground.position);
        this.flat = new Matrix4().set(
            1 - x * x, -x * y, -x * z, x * height,
            -x * y, 1 - y * y, -y * z, y * height,
            -x * z, -y * z, 1 - z * z, z * height,
            0, 0, 0, 1);
    }

    add(robot) {
        const sources = [];
        robot.root.traverse((object) => {
            if (object.isMesh && object.material.depthTest) sources.push(object); // no axes
        });
        for (const source of sources) {
            const mesh = new Mesh(source.geometry, this.material);
            mesh.matrixAutoUpdate = false;
            mesh.matrixWorldAutoUpdate = false;
            mesh.renderOrder = -0.5; // between the ground and ghosts
            this.pairs.push({ robot, source, mesh });
            this.root.add(mesh);
        }
    }

    update() {
        for (const { robot, source, mesh } of this.pairs) {
            mesh.visible = robot.seen && source.visible;
            if (mesh.visible) mesh.matrixWorld.multiplyMatrices(this.flat, source.matrixWorld);
        }
    }

    dispose() {
        this.material.dispose();
    }
}
